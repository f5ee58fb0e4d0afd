#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/file_io.h"
#include "common/ids.h"
#include "common/mutex.h"
#include "server/queue/state/job_store.h"
#include "server/store/commit_count.h"
#include "server/store/store_rows.h"

struct sqlite3;

namespace nerf {

class SqliteStatement;

struct SqliteStoreOptions {
  // Start with what is there, although commits that were acknowledged are missing from it.
  bool accept_data_loss = false;
  // Draw a new store epoch, because the file was restored from a backup.
  bool new_epoch = false;
  // Space that is kept for the writes that a full disk must still take (StoreWrite::MayUseReserve).
  uint64_t reserve_bytes = uint64_t{8} << 20;
  // Open a copy in memory, to check a backup: the file, its log and the files beside it are not
  // written. The log is not read.
  bool in_memory = false;
};

// The queue's store in one SQLite file. Write-ahead log with synchronous=FULL, so that an OK
// survives a power cut. One connection behind one mutex. The schema has a version (PRAGMA
// user_version): files of others are refused.
//
// Beside the file lie <path>.commits, which says how many commits were acknowledged, so that lost
// ones are noticed (a damaged log, which SQLite reads up to the damage; an older file that was put
// back), and <path>.reserve, which gives a full disk room for writes that end or delete something.
// Thread-safe.
class SqliteStore final : public JobStore {
 public:
  // Opens or makes the file. `random` draws the store epoch of a new one. Errors: DataLoss
  // STORE_CORRUPT (not a database, or damaged), FailedPrecondition (of a newer version),
  // Unavailable STORE_READ_ONLY (cannot be written, or open in another process).
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(const std::string& path,
                                                           RandomSource& random,
                                                           const SqliteStoreOptions& options = {});
  ~SqliteStore() override;

  absl::StatusOr<StoredState> Load() override;
  absl::StatusOr<std::optional<Job>> LoadJob(const ResourceKey& job) override;
  absl::StatusOr<TrainingCurve> LoadCurve(const ResourceKey& job) override;
  absl::Status Commit(const StoreWrite& write) override;
  std::vector<absl::Status> CommitAll(std::span<const StoreWrite* const> writes) override;

  bool read_only() const override { return read_only_; }

  // Calls `visit` for each row of a table (kQueueTables). Commits wait meanwhile.
  absl::Status ReadRows(const StoreTable& table, const VisitRow& visit) ABSL_LOCKS_EXCLUDED(mu_);

  // Writes a copy of the file to `path`, which does not exist. Commits go on meanwhile, and are in
  // the copy. Errors: those of SQLite.
  absl::Status CopyTo(const std::string& path) ABSL_LOCKS_EXCLUDED(mu_);

  // Limits the file to this many pages, to simulate a full disk in tests.
  absl::Status LimitPagesForTest(uint32_t max_pages);

 private:
  SqliteStore(sqlite3* db, std::string path, const SqliteStoreOptions& options);
  // Refuses a file that lacks commits that were acknowledged.
  absl::Status CheckCommits(RandomSource& random) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status DrawEpoch(RandomSource& random) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status DrawSecret(RandomSource& random) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CountCommit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CommitAcknowledged() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CommitOneWithReserve(const StoreWrite& write) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Gives the space of the reserve to the file system, or takes it again. Free returns false when
  // it was free already.
  bool FreeReserve() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TakeReserve() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether the reserve is there and the disk has as much room again.
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
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
  absl::Status WriteSettings(const StoreWrite& write) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status WriteJob(const JobWrite& write) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  struct Statements;
  // The row that `query` finds for a job.
  absl::StatusOr<std::optional<StoreRow>> FindRow(SqliteStatement& query, const StoreTable& table,
                                                  const ResourceKey& job)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string path_;
  const SqliteStoreOptions options_;
  Mutex mu_;
  CommitCount commit_count_ ABSL_GUARDED_BY(mu_);
  std::string store_epoch_ ABSL_GUARDED_BY(mu_);
  std::string token_secret_ ABSL_GUARDED_BY(mu_);  // StoredState::token_secret
  uint64_t n_commits_ ABSL_GUARDED_BY(mu_) = 0;    // in the file
  bool has_reserve_ ABSL_GUARDED_BY(mu_) = false;
  std::atomic<bool> read_only_ = false;
  sqlite3* const db_ ABSL_PT_GUARDED_BY(mu_);
  std::unique_ptr<Statements> statements_ ABSL_GUARDED_BY(mu_);
  // Set by an error that leaves the file's state unknown: nothing is acknowledged any more.
  absl::Status broken_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nerf
