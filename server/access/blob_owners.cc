#include "server/access/blob_owners.h"

namespace nerf {

bool BlobOwners::Owns(std::string_view project, std::string_view sha256) const {
  MutexLock lock(mu_);
  const auto found = projects_.find(sha256);
  if (found == projects_.end()) return project == kDefaultProject;
  return found->second.contains(project);
}

void BlobOwners::Add(std::string_view project, std::string_view sha256, bool was_present) {
  MutexLock lock(mu_);
  const auto found = projects_.find(sha256);
  if (found == projects_.end()) {
    if (project == kDefaultProject) return;
    auto& projects = projects_[std::string(sha256)];
    projects.emplace(project);
    if (was_present) projects.emplace(kDefaultProject);
  } else if (project == kDefaultProject && found->second.empty()) {
    projects_.erase(found);  // it is the default project's alone
  } else {
    found->second.emplace(project);
  }
}

void BlobOwners::AddNobodys(std::string_view sha256) {
  MutexLock lock(mu_);
  if (!projects_.contains(sha256)) projects_[std::string(sha256)];
}

void BlobOwners::Forget(std::string_view sha256) {
  MutexLock lock(mu_);
  if (const auto found = projects_.find(sha256); found != projects_.end()) projects_.erase(found);
}

size_t BlobOwners::size() const {
  MutexLock lock(mu_);
  return projects_.size();
}

}  // namespace nerf
