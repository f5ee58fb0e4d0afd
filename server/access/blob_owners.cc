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
  if (found != projects_.end()) {
    found->second.emplace(project);
    return;
  }
  if (project == kDefaultProject && !was_present) return;
  auto& projects = projects_[std::string(sha256)];
  projects.emplace(project);
  if (was_present) projects.emplace(kDefaultProject);
}

void BlobOwners::NoteFresh(std::string_view sha256) {
  MutexLock lock(mu_);
  fresh_.emplace(sha256);
}

void BlobOwners::AddMade(std::string_view project, std::string_view sha256) {
  bool was_present = true;
  {
    MutexLock lock(mu_);
    if (const auto found = fresh_.find(sha256); found != fresh_.end()) {
      fresh_.erase(found);
      was_present = false;
    }
  }
  Add(project, sha256, was_present);
}

void BlobOwners::AddDefault(std::string_view sha256) {
  MutexLock lock(mu_);
  if (const auto found = projects_.find(sha256); found != projects_.end()) {
    found->second.emplace(kDefaultProject);
  }
}

void BlobOwners::Forget(std::string_view sha256) {
  MutexLock lock(mu_);
  if (const auto found = projects_.find(sha256); found != projects_.end()) projects_.erase(found);
  if (const auto found = fresh_.find(sha256); found != fresh_.end()) fresh_.erase(found);
}

size_t BlobOwners::size() const {
  MutexLock lock(mu_);
  return projects_.size() + fresh_.size();
}

}  // namespace nerf
