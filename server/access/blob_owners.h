#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "common/mutex.h"

namespace nerf {

// Which projects may read a blob. Blobs lie in one store by digest, so knowing a digest must open
// nothing: a project reads what was uploaded to it or made in it. A blob without an entry is
// nobody's. Filled at a start from the resources and the stored uploads (TakeUpStoredBlobs); an
// entry goes when the store deletes its blob. Requires of every sha256: 64 hexadecimal digits.
// Thread-safe.
class BlobOwners {
 public:
  bool Owns(std::string_view project, std::string_view sha256) const;
  void Add(std::string_view project, std::string_view sha256);
  // The store has deleted the blob.
  void Forget(std::string_view sha256);
  // Number of blobs with an entry.
  size_t size() const;

 private:
  using Digest = std::array<char, 32>;
  using Projects = absl::InlinedVector<uint32_t, 2>;  // places in names_

  mutable Mutex mu_;
  std::vector<std::string> names_ ABSL_GUARDED_BY(mu_);  // of projects that have had a blob
  absl::flat_hash_map<Digest, Projects> projects_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nerf
