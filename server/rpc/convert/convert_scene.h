#pragma once

#include "absl/status/statusor.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "nerf/v1/scene_service.pb.h"
#include "nerf/v1/worker_service.pb.h"
#include "server/queue/catalogs/scene_catalog.h"
#include "server/queue/resources/request_check.h"

namespace nerf {

// Adds the files for a worker.
void AddManifest(const std::vector<SceneFileRecord>& files,
                 google::protobuf::RepeatedPtrField<v1::SceneManifestEntry>* manifest);

// The files of a request. Adds every wrong one to `check`, as "{prefix}files[3].path".
std::vector<SceneFileRecord> ParseManifest(
    const std::string& prefix, const google::protobuf::RepeatedPtrField<v1::SceneFile>& files,
    RequestCheck& check);
// ResourceExhausted SIZE_LIMIT for a message with a manifest that is too large for a worker's.
absl::Status CheckManifestSize(size_t byte_size);

// Errors: InvalidArgument that lists every wrong field; ResourceExhausted SIZE_LIMIT for a manifest
// that does not fit into a message to a worker.
absl::StatusOr<SceneSpec> FromProto(const v1::CreateSceneRequest& request);

}  // namespace nerf
