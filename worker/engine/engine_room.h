#pragma once

#include <map>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "nerf/v1/common.pb.h"
#include "worker/files/blob_cache.h"

namespace nerf {

// Of projects/{project}/jobs/{job}.
std::string ProjectOf(const std::string& name);

// The folders that the engines of one project reach, and no engine of another project:
//   jobs      of its jobs; the engine may write there
//   requests  of its renders and checks; the engine may write there
//   open      links to the cached files that are in use, while they are; the engine may read them
// A room has no project until it gets its first work. Held in a shared_ptr by the engines, runs and
// requests that use it. Open and Close are thread-safe, the rest is for the agent's thread.
class EngineRoom {
 public:
  // Makes the folders. `folder` does not exist yet. A folder that cannot be made is missed, and
  // reported, by the work that needs it.
  explicit EngineRoom(std::string folder);

  const std::optional<std::string>& project() const { return project_; }
  void SetProject(const std::string& project) { project_ = project; }

  const std::string& folder() const { return folder_; }
  std::string jobs() const { return folder_ + "/jobs"; }
  std::string requests() const { return folder_ + "/requests"; }
  std::string open() const { return folder_ + "/open"; }

  // The path of a blob in `open`, downloaded when needed. The path is always the same, since an
  // engine keeps models by their path. It stays until as many calls of Close.
  // Errors: those of BlobCache::Fetch.
  absl::StatusOr<std::string> Open(BlobCache& cache, const v1::BlobRef& blob, std::stop_token stop);
  void Close(BlobCache& cache, const std::string& sha256);

 private:
  const std::string folder_;
  std::optional<std::string> project_;
  Mutex mu_;
  std::map<std::string, int> n_users_ ABSL_GUARDED_BY(mu_);  // of open files, by digest
};

}  // namespace nerf
