#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/queue/resources/page.h"
#include "server/queue/resources/scene_manifest.h"
#include "server/queue/resources/scene_record.h"
#include "server/queue/state/queue_state.h"

namespace nerf {

struct SceneSpec {
  std::string project;
  std::string id;          // empty: drawn ("s-7f3k2c81")
  std::string request_id;  // empty, or a UUID4
  std::string display_name;
  std::vector<SceneFileRecord> files;
};

// The scenes. Thread-safe; shares the queue's lock. `state` outlives it.
// Common errors: NotFound RESOURCE_NOT_FOUND, Unavailable STORE_READ_ONLY.
class SceneCatalog {
 public:
  explicit SceneCatalog(QueueState* state) : state_(*state) {}

  // Creates a scene of blobs that are present. The same request_id with the same spec returns the
  // earlier scene. Errors: InvalidArgument FIELD_INVALID; FailedPrecondition BLOBS_MISSING
  // (metadata missing: the count; the first hashes in the message); AlreadyExists ALREADY_EXISTS or
  // REQUEST_ID_REUSED.
  absl::StatusOr<SceneRecord> Create(const SceneSpec& spec);
  absl::StatusOr<SceneRecord> Get(const ResourceKey& key);
  // Newest first; files are left out.
  absl::StatusOr<Page<SceneRecord>> List(const PageRequest& request);
  // Also releases its blobs. FailedPrecondition STATE_CONFLICT if a job that is not final uses it.
  absl::Status Delete(const ResourceKey& key);

 private:
  // Delete without releasing the blobs.
  absl::StatusOr<SceneRecord> Remove(const ResourceKey& key);

  QueueState& state_;
};

}  // namespace nerf
