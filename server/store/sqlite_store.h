#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/mutex.h"
#include "server/queue/job_store.h"

struct sqlite3;

namespace nerf {

// The queue's store in one SQLite file. Write-ahead log with synchronous=FULL, so that an OK
// survives a power cut. One connection behind one mutex. The schema has a version (PRAGMA
// user_version): older files are migrated in one transaction when opened, newer ones refused.
// Thread-safe.
class SqliteStore final : public JobStore {
 public:
  // Opens or makes the file. `random` draws the store epoch of a new one. Errors: DataLoss
  // STORE_CORRUPT (not a database, or damaged), FailedPrecondition (of a newer version),
  // Unavailable STORE_READ_ONLY (cannot be written, or open in another process).
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(const std::string& path,
                                                           RandomSource& random);
  ~SqliteStore() override;

  absl::StatusOr<StoredState> Load() override;
  absl::Status Commit(const StoreWrite& write) override;
  std::vector<absl::Status> CommitAll(std::span<const StoreWrite* const> writes) override;

  // Limits the file to this many pages, to simulate a full disk in tests.
  void LimitPagesForTest(uint32_t max_pages);

 private:
  explicit SqliteStore(sqlite3* db);
  absl::Status Prepare() ABSL_LOCKS_EXCLUDED(mu_);
  // Commits many writes in one transaction. Each is applied or refused on its own. An error means
  // that none took effect.
  absl::Status CommitTogether(std::span<const StoreWrite* const> writes,
                              std::vector<absl::Status>* statuses)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CommitOne(const StoreWrite& write) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Undoes a failed transaction. Returns the error for the caller; if the file's state is unknown,
  // every later commit gets it, too.
  absl::Status Undo(absl::Status error) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status WriteAll(const StoreWrite& write) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status WriteJob(const JobWrite& write) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  struct Statements;

  Mutex mu_;
  sqlite3* const db_ ABSL_PT_GUARDED_BY(mu_);
  std::unique_ptr<Statements> statements_ ABSL_GUARDED_BY(mu_);
  // Set by an error that leaves the file's state unknown: nothing is acknowledged any more.
  absl::Status broken_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nerf
