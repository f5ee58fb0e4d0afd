#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "server/queue/resources/blob_ref.h"

namespace nerf {

// Bytes that a project has stored.
struct StoredBytes {
  struct Upload {
    uint64_t byte_size = 0;
    absl::Time time;          // of its last call, by QueueState::Age
    bool unfinished = false;  // not stored (StoredState::uploads)
  };
  uint64_t named = 0;     // by its scenes, jobs and models, each file once, when last counted
  uint64_t uploaded = 0;  // sum over `uploads`
  // What it has uploaded and no resource has named yet, by sha256; and what it is uploading, by the
  // upload's key in the blob store.
  std::map<std::string, Upload> uploads;
};

// What projects have stored. Not thread-safe: guarded by the queue's lock.
class StoredUse {
 public:
  // Distinct blobs that resources of a project name.
  struct Named {
    std::unordered_set<std::string> blobs;  // sha256
    uint64_t byte_size = 0;
  };

  // Null if it has stored nothing.
  const StoredBytes* Of(const std::string& project) const;
  const std::map<std::string, StoredBytes>& by_project() const { return stored_; }

  // Counts an upload in place of an earlier one with this key.
  void Count(const std::string& project, const std::string& key, StoredBytes::Upload upload);
  void Uncount(const std::string& project, const std::string& key);
  // Counts by project what is named now, and drops uploads that are named or from before
  // `drop_before`. Returns project and sha256 of dropped ones that are stored.
  std::vector<std::pair<std::string, std::string>> Recount(
      const std::map<std::string, Named>& named, absl::Time drop_before);

 private:
  std::map<std::string, StoredBytes> stored_;
};

}  // namespace nerf
