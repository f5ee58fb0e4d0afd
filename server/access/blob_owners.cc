#include "server/access/blob_owners.h"

#include <algorithm>

#include "absl/strings/escaping.h"

namespace nerf {
namespace {

std::array<char, 32> DigestOf(std::string_view sha256) {
  const std::string bytes = absl::HexStringToBytes(absl::string_view(sha256.data(), sha256.size()));
  std::array<char, 32> digest = {};
  std::copy_n(bytes.begin(), std::min(bytes.size(), digest.size()), digest.begin());
  return digest;
}

}  // namespace

bool BlobOwners::Owns(std::string_view project, std::string_view sha256) const {
  MutexLock lock(mu_);
  const auto found = projects_.find(DigestOf(sha256));
  if (found == projects_.end()) return false;
  for (const uint32_t place : found->second) {  // a lambda would not be known to hold the lock
    if (names_[place] == project) return true;
  }
  return false;
}

void BlobOwners::Add(std::string_view project, std::string_view sha256) {
  MutexLock lock(mu_);
  const auto name = std::find(names_.begin(), names_.end(), project);
  const auto place = static_cast<uint32_t>(name - names_.begin());
  if (name == names_.end()) names_.emplace_back(project);
  Projects& projects = projects_[DigestOf(sha256)];
  if (std::find(projects.begin(), projects.end(), place) == projects.end())
    projects.push_back(place);
}

void BlobOwners::Forget(std::string_view sha256) {
  MutexLock lock(mu_);
  projects_.erase(DigestOf(sha256));
}

size_t BlobOwners::size() const {
  MutexLock lock(mu_);
  return projects_.size();
}

}  // namespace nerf
