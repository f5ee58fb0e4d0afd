#include "worker/engine/engine_room.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "common/status_macros.h"
#include "worker/files/scene_folder.h"

namespace nerf {

namespace fs = std::filesystem;

std::string ProjectOf(const std::string& name) {
  const size_t begin = name.find('/') + 1;
  return name.substr(begin, name.find('/', begin) - begin);
}

EngineRoom::EngineRoom(std::string folder) : folder_(std::move(folder)) {
  for (const std::string& name : {jobs(), requests(), open()}) {
    std::error_code ignored;
    fs::create_directories(name, ignored);
  }
}

absl::StatusOr<std::string> EngineRoom::Open(BlobCache& cache, const v1::BlobRef& blob,
                                             std::stop_token stop) {
  NERF_ASSIGN_OR_RETURN(const auto cached, cache.Fetch(blob, /*pin=*/true, std::move(stop)));
  const std::string path = open() + "/" + blob.sha256();
  MutexLock lock(mu_);
  int& n_users = n_users_[blob.sha256()];
  if (n_users == 0) {
    absl::Status linked = MakeFolders(open());
    if (linked.ok()) linked = LinkFile(cached, path);
    if (!linked.ok()) {
      n_users_.erase(blob.sha256());
      cache.Unpin(blob.sha256());
      return linked;
    }
  }
  ++n_users;
  return path;
}

void EngineRoom::Close(BlobCache& cache, const std::string& sha256) {
  {
    MutexLock lock(mu_);
    const auto it = n_users_.find(sha256);
    if (it == n_users_.end()) return;
    if (--it->second == 0) {
      n_users_.erase(it);
      std::error_code ignored;
      fs::remove(open() + "/" + sha256, ignored);
    }
  }
  cache.Unpin(sha256);
}

}  // namespace nerf
