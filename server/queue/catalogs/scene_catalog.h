#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/queue/resources/page.h"
#include "server/queue/resources/scene_record.h"
#include "server/queue/state/queue_state.h"

namespace nerf {

inline constexpr size_t kMaxSceneFiles = 20'000;
inline constexpr size_t kMaxScenePathLength = 512;  // bytes
inline constexpr size_t kMaxScenePathDepth = 16;
inline constexpr uint64_t kMaxSceneFileSize = uint64_t{1} << 32;

// Checks a manifest: file count; every path relative, UTF-8, with '/' between parts and no '.',
// '..', empty part, backslash or control character, within the limits above; no path twice, and
// none that is also the folder of another; digests well-formed, sizes within the limit.
// InvalidArgument FIELD_INVALID that lists every problem with its place ("files[3].path").
absl::Status CheckManifest(const std::vector<SceneFileRecord>& files);

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
