#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/blob_store.h"
#include "server/store/sqlite_store.h"

namespace nerf {

struct BackupSummary {
  std::string path;  // of its folder
  uint64_t n_blobs = 0;
  uint64_t blob_bytes = 0;
};

// Writes <data_dir>/backups/<id>: a copy of queue.db with everything that was acknowledged before
// the call, and hard links to the blobs. The stores go on meanwhile. `id` is a resource id. Errors:
// AlreadyExists ALREADY_EXISTS; those of the stores and the file system.
absl::StatusOr<BackupSummary> WriteBackup(SqliteStore& store, BlobStore& blobs,
                                          const std::string& data_dir, const std::string& id);

// Fills a data folder without a queue.db from a backup: the blobs by hard links where the file
// system is the same, otherwise by copies. The store must then be opened with new_epoch. Errors:
// FailedPrecondition when the folder has a queue.db; NotFound when `from` has none.
absl::Status RestoreBackup(const std::string& from, const std::string& data_dir);

}  // namespace nerf
