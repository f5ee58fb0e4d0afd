#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/blob_store.h"
#include "server/store/sqlite_access_store.h"
#include "server/store/sqlite_store.h"

namespace nerf {

struct BackupSummary {
  std::string path;  // of its folder
  uint64_t n_blobs = 0;
  uint64_t blob_bytes = 0;
};

// Writes <data_dir>/backups/<id>: copies of queue.db and access.db with everything that was
// acknowledged before the call, and hard links to the blobs. The stores go on meanwhile. `id` is a
// resource id. Without `access` there is no access.db. Errors:
// AlreadyExists ALREADY_EXISTS; those of the stores and the file system.
absl::StatusOr<BackupSummary> WriteBackup(SqliteStore& store, BlobStore& blobs,
                                          const std::string& data_dir, const std::string& id,
                                          SqliteAccessStore* access = nullptr);

// Errors: NotFound where RestoreBackup would find no backup.
absl::Status CheckBackup(const std::string& from);

// Fills a data folder without a queue.db from a backup: the blobs by hard links where the file
// system is the same, otherwise by copies. An access.db that the folder has stays: its tokens are
// newer. The store must then be opened with new_epoch. Errors:
// FailedPrecondition when the folder has a queue.db; those of CheckBackup.
absl::Status RestoreBackup(const std::string& from, const std::string& data_dir);

}  // namespace nerf
