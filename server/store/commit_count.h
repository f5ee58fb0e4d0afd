#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/files/file_io.h"

namespace nerf {

// A file that says how many commits a store has acknowledged, and which store. With it a store that
// lacks some is noticed: its log is damaged, or an older copy was put back. Not synced: after a
// power cut it may say fewer, which hides nothing. Not thread-safe.
class CommitCount {
 public:
  // `store`: its name in messages, such as queue.db.
  CommitCount(std::string path, std::string store);

  // DataLoss STORE_CORRUPT when the file counts another store than the one of `epoch`, or more
  // commits than it has. OK where there is no readable file.
  absl::Status Check(const std::string& epoch, uint64_t n_commits) const;

  // Makes the file where it is missing (mode 0600); it is of this store from now on. Errors: those
  // of the file system.
  absl::Status Begin(const std::string& epoch, uint64_t n_commits);
  void Set(uint64_t n_commits);

 private:
  const std::string path_, store_;
  std::string epoch_;
  UniqueFd file_;
};

}  // namespace nerf
