#pragma once

#include "absl/status/statusor.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "nerf/v1/scene_service.pb.h"
#include "nerf/v1/worker_service.pb.h"
#include "server/queue/scene_catalog.h"

namespace nerf {

v1::Scene ToProto(const SceneRecord& scene);

// The files as a worker lays them out.
void AddManifest(const SceneRecord& scene,
                 google::protobuf::RepeatedPtrField<v1::SceneManifestEntry>* files);

// Every wrong field at once: names, manifest, blobs. ResourceExhausted SIZE_LIMIT for a manifest
// that would not fit the message to a worker.
absl::StatusOr<SceneSpec> FromProto(const v1::CreateSceneRequest& request);

}  // namespace nerf
