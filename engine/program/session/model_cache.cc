#include "engine/program/session/model_cache.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/files/file_io.h"
#include "common/status_macros.h"
#include "fmt/format.h"

namespace nerf {
namespace {

absl::StatusOr<std::string> Identity(const std::string& path) {
  struct stat found = {};
  if (stat(path.c_str(), &found) != 0) return ErrnoToStatus(errno, "open " + path);
  return fmt::format("{}\n{} {} {} {}.{}", path, found.st_dev, found.st_ino, found.st_size,
                     found.st_mtim.tv_sec, found.st_mtim.tv_nsec);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const LoadedModel>> ModelCache::Get(const std::string& path) {
  NERF_ASSIGN_OR_RETURN(std::string identity, Identity(path));
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.identity == identity; });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
    return entries_.front().model;
  }
  NERF_ASSIGN_OR_RETURN(LoadedModel loaded, LoadModelFile(path, device_));
  entries_.push_front({std::move(identity), std::make_shared<LoadedModel>(std::move(loaded))});
  byte_size_ += entries_.front().model->byte_size;
  while (byte_size_ > max_bytes_ && entries_.size() > 1) {
    byte_size_ -= entries_.back().model->byte_size;
    entries_.pop_back();
  }
  return entries_.front().model;
}

}  // namespace nerf
