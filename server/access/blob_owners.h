#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "common/mutex.h"

namespace nerf {

// Which projects may read a blob. Blobs lie in one store by digest, so knowing a digest must open
// nothing: a project reads what was uploaded to it or made in it. Blobs that no other project has
// had are the default project's and have no entry, so a server with one project keeps none. Filled
// from the resources at a start; uploads that no resource names are then uploaded again. Entries go
// with their blobs.
// Thread-safe.
class BlobOwners {
 public:
  static constexpr std::string_view kDefaultProject = "default";

  bool Owns(std::string_view project, std::string_view sha256) const;
  // `was_present`: the store had the blob before.
  void Add(std::string_view project, std::string_view sha256, bool was_present);
  // A worker has uploaded a blob that the store did not have; for which project, it says later.
  void NoteFresh(std::string_view sha256);
  // The job of a project has made the blob.
  void AddMade(std::string_view project, std::string_view sha256);
  // A reference of the default project, after all others were added.
  void AddDefault(std::string_view sha256);
  // The store has deleted the blob.
  void Forget(std::string_view sha256);
  // Number of blobs with an entry.
  size_t size() const;

 private:
  mutable Mutex mu_;
  std::map<std::string, std::set<std::string, std::less<>>, std::less<>> projects_
      ABSL_GUARDED_BY(mu_);  // by sha256
  std::set<std::string, std::less<>> fresh_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nerf
