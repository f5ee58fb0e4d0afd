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
// at a start from the resources and the stored uploads (TakeUpStoredBlobs); what neither names is
// nobody's. Entries go with their blobs.
// Thread-safe.
class BlobOwners {
 public:
  static constexpr std::string_view kDefaultProject = "default";

  bool Owns(std::string_view project, std::string_view sha256) const;
  // `was_present`: the store had the blob before.
  void Add(std::string_view project, std::string_view sha256, bool was_present);
  // The blob, if it has no entry, is nobody's until it is added: a worker has uploaded it and says
  // later for which project, or whose it was is not known.
  void AddNobodys(std::string_view sha256);
  // The job of a project has made the blob, which is in the store.
  void AddMade(std::string_view project, std::string_view sha256) {
    Add(project, sha256, /*was_present=*/true);
  }
  // The store has deleted the blob.
  void Forget(std::string_view sha256);
  // Number of blobs with an entry.
  size_t size() const;

 private:
  mutable Mutex mu_;
  std::map<std::string, std::set<std::string, std::less<>>, std::less<>> projects_
      ABSL_GUARDED_BY(mu_);  // by sha256
};

}  // namespace nerf
