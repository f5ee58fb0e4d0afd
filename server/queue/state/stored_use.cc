#include "server/queue/state/stored_use.h"

namespace nerf {

const StoredBytes* StoredUse::Of(const std::string& project) const {
  const auto found = stored_.find(project);
  return found == stored_.end() ? nullptr : &found->second;
}

void StoredUse::Count(const std::string& project, const std::string& key,
                      StoredBytes::Upload upload) {
  Uncount(project, key);
  StoredBytes& stored = stored_[project];
  stored.uploads[key] = upload;
  stored.uploaded += upload.byte_size;
}

void StoredUse::Uncount(const std::string& project, const std::string& key) {
  const auto stored = stored_.find(project);
  if (stored == stored_.end()) return;
  const auto found = stored->second.uploads.find(key);
  if (found == stored->second.uploads.end()) return;
  stored->second.uploaded -= found->second.byte_size;
  stored->second.uploads.erase(found);
}

std::vector<std::pair<std::string, std::string>> StoredUse::Recount(
    const std::map<std::string, Named>& named, absl::Time drop_before) {
  std::vector<std::pair<std::string, std::string>> dropped;
  for (auto& [project, stored] : stored_) {
    const auto found = named.find(project);
    std::erase_if(stored.uploads, [&, &project = project](const auto& item) {
      const auto& [key, upload] = item;
      const bool is_named = found != named.end() && found->second.blobs.contains(key);
      if (!is_named && upload.time >= drop_before) return false;
      if (!upload.unfinished) dropped.emplace_back(project, key);
      return true;
    });
    stored.named = 0;
    stored.uploaded = 0;
    for (const auto& [key, upload] : stored.uploads) stored.uploaded += upload.byte_size;
  }
  for (const auto& [project, blobs] : named) stored_[project].named = blobs.byte_size;
  std::erase_if(stored_, [](const auto& stored) {
    return stored.second.named == 0 && stored.second.uploads.empty();
  });
  return dropped;
}

}  // namespace nerf
