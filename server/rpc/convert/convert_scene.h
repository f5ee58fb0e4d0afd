#pragma once

#include "absl/status/statusor.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "nerf/v1/scene_service.pb.h"
#include "nerf/v1/worker_service.pb.h"
#include "server/queue/catalogs/scene_catalog.h"

namespace nerf {

v1::Scene ToProto(const SceneRecord& scene);

// Adds the files of the scene for a worker.
void AddManifest(const SceneRecord& scene,
                 google::protobuf::RepeatedPtrField<v1::SceneManifestEntry>* files);

// Errors: InvalidArgument that lists every wrong field; ResourceExhausted SIZE_LIMIT for a manifest
// that does not fit into a message to a worker.
absl::StatusOr<SceneSpec> FromProto(const v1::CreateSceneRequest& request);

}  // namespace nerf
