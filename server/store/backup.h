#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/store/blob_store.h"
#include "server/store/sqlite_access_store.h"
#include "server/store/sqlite_store.h"

namespace nerf {

struct BackupSummary {
  std::string path;  // of its folder
  uint64_t n_blobs = 0;
  uint64_t blob_bytes = 0;
};

// A backup in a data folder.
struct ListedBackup {
  std::string id;
  absl::Time taken;      // when its folder was last written to
  bool is_whole = true;  // else it is being written, or that was interrupted
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

// Whether `data_dir` can be restored from a backup. Opens its databases as a server would and looks
// for every blob that they name; writes nothing, in either folder. With `accept_data_loss` lost
// commits and blobs are only logged. Errors, which name the file: NotFound (no backup); DataLoss
// STORE_CORRUPT (a damaged database, lost commits) or BLOB_DAMAGED (a blob that is missing or has
// another size); FailedPrecondition (of a newer version, or the folder has a queue.db).
absl::Status CheckBackup(const std::string& from, const std::string& data_dir,
                         bool accept_data_loss = false);

// The backups in <data_dir>/backups, the oldest first; what else lies there is left aside. Errors:
// those of the file system.
absl::StatusOr<std::vector<ListedBackup>> ListBackups(const std::string& data_dir);

// CheckBackup, for any folder, and each of its blobs read and compared with its name. Errors: those
// of CheckBackup; DataLoss BLOB_DAMAGED, naming the first blob that is another one; Unavailable for
// one that cannot be read.
absl::StatusOr<BackupSummary> VerifyBackup(const std::string& from);

// Fills a data folder without a queue.db from a backup: the blobs by hard links where the file
// system is the same, otherwise by copies. An access.db that the folder has stays: its tokens are
// newer. The store must then be opened with new_epoch. What it has made is removed after an error:
// FailedPrecondition when the folder has a queue.db; those of the file system.
// Requires: CheckBackup.
absl::Status RestoreBackup(const std::string& from, const std::string& data_dir);

}  // namespace nerf
