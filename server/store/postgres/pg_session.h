#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/mutex.h"
#include "server/store/commit_count.h"
#include "server/store/postgres/pg_connection.h"
#include "server/store/postgres/postgres_stores.h"

namespace nerf {

struct PgSessionOptions {
  std::string uri;
  ReplicaSeat seat = {};          // with a lease: one of several nerfd
  std::string commits_file = {};  // of CommitCount; empty: nothing is counted
  // Start although commits that were acknowledged are missing, with a new store epoch.
  bool accept_data_loss = false;
  // Most time to wait for another nerfd to let the database go, when opening.
  absl::Duration lock_wait = absl::Seconds(20);
  // Most time to connect again for a transaction that is known not to be committed.
  absl::Duration retry_for = absl::Seconds(10);
  // Most time to find out whether a commit whose answer was lost has happened.
  absl::Duration resolve_for = absl::Minutes(2);
};

// A transaction that was not committed.
struct PgRefusal {
  absl::Status status;
  // The command that the server refused; nullopt: no command was to blame.
  std::optional<size_t> command;
};

// The database of one nerfd: one connection that writes, which is made again when it is lost, and
// one that only reads.
//
// Alone: a session-level advisory lock keeps every other nerfd away, and each connection that holds
// it is the only one that writes. A new nerfd adds one to the number of the row `term`; each
// transaction checks the number, so that whoever was replaced writes nothing any more.
//
// The fate of a commit: each transaction adds one to `term.commits`. When the answer to COMMIT is
// lost, the session connects again and takes the lock, which the old connection holds until its
// transaction has ended; then the row says whether it happened.
//
// Replicas: whoever begins a term also takes the lease of table `leader`, or takes it away. No term
// begins before the lease of the one before is over. Then the session of its holder, which may be
// stopped or cut off and still have the lock, is ended.
//
// Thread-safe; transactions wait for each other.
class PgSession {
 public:
  // Connects, takes the lock, makes the schema and begins a term. `random` draws what a new
  // store needs. Errors: Unavailable STORE_READ_ONLY (no connection); FailedPrecondition (another
  // nerfd holds the database: its message says which; a schema of another version; an unsuitable
  // server); DataLoss STORE_CORRUPT (commits are missing).
  static absl::StatusOr<std::unique_ptr<PgSession>> Open(const PgSessionOptions& options,
                                                         RandomSource& random);

  // Runs the commands in one transaction. nullopt means that it is committed and survives a power
  // cut. A lost connection is made again and the transaction repeated. Statuses of refusals: those
  // of PgError; FailedPrecondition for a command that did not change its row; Unavailable
  // STORE_READ_ONLY without PostgreSQL; DataLoss STORE_CORRUPT when it has lost commits; Internal
  // when the fate of the commit stays unknown. After the last two, and when another nerfd has taken
  // the database, nothing is stored any more.
  std::optional<PgRefusal> Transact(std::vector<PgCommand> commands) ABSL_LOCKS_EXCLUDED(mu_);

  // Runs `body` in one transaction, once. Errors: those of `body` and Transact.
  absl::Status TransactOnce(const std::function<absl::Status(PgConnection&)>& body)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Runs `body`, which only reads. Again on a new connection when the old one is lost.
  absl::Status Read(const std::function<absl::Status(PgConnection&)>& body)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Runs `body`, which only reads what is committed, on a connection of its own: it waits for no
  // transaction. Without PostgreSQL it fails at once.
  absl::Status ReadBeside(const std::function<absl::Status(PgConnection&)>& body)
      ABSL_LOCKS_EXCLUDED(reader_mu_);

  // Whether the last transaction found no PostgreSQL, no room, or another owner.
  bool read_only() const { return read_only_; }
  // Whether it stores nothing any more.
  bool is_broken() const { return is_broken_; }
  // Of this session; and when, at the latest, its lease began.
  uint64_t term() const ABSL_LOCKS_EXCLUDED(mu_);
  SteadyTime began() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  PgSession(PgSessionOptions options, std::string holder);
  // Connects and takes the lock until `give_up`.
  absl::StatusOr<std::unique_ptr<PgConnection>> Connect(SteadyTime give_up)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status TakeLock(PgConnection& connection, SteadyTime give_up)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends the session that has the lock if its nerfd has let its lease pass.
  absl::Status EndExpired(PgConnection& connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Waits for the lease of another one until `give_up`.
  absl::Status BeginTerm(PgConnection& connection, SteadyTime give_up)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckCommits(PgConnection& connection, RandomSource& random)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SetCommits(uint64_t n_commits) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Connects where there is no connection. Sets n_commits_ to what the database has.
  absl::Status EnsureConnected(SteadyTime give_up) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Checks that the term is ours, and returns its commits.
  absl::StatusOr<uint64_t> ReadCommits(PgConnection& connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether the database has the commits that it should have; breaks the session if not.
  absl::Status CheckCount(uint64_t commits) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Runs a whole transaction: its first command begins it, its last one counts the commit.
  std::optional<PgRefusal> Try(std::span<const PgCommand> commands)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Commits and finds out whether it happened. An error: it did not, or nobody knows.
  absl::Status Commit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  PgCommand CountCommit() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends the transaction and passes `status` on. Forgets a connection that is lost.
  absl::Status Undo(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Nothing is stored from now on.
  absl::Status Break(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const PgSessionOptions options_;
  const std::string holder_;  // "host:pid:8 random digits"
  const RealClock clock_;
  mutable Mutex mu_;
  std::unique_ptr<PgConnection> connection_ ABSL_GUARDED_BY(mu_);  // null: lost
  uint64_t term_ ABSL_GUARDED_BY(mu_) = 0;
  SteadyTime began_ ABSL_GUARDED_BY(mu_);
  uint64_t n_commits_ ABSL_GUARDED_BY(mu_) = 0;
  bool fate_unknown_ ABSL_GUARDED_BY(mu_) = false;  // the database may have one commit more
  CommitCount commit_count_ ABSL_GUARDED_BY(mu_);
  absl::Status broken_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> read_only_ = false;
  std::atomic<bool> is_broken_ = false;
  Mutex reader_mu_;
  std::unique_ptr<PgConnection> reader_ ABSL_GUARDED_BY(reader_mu_);  // null: none yet, or lost
  SteadyTime connect_reader_at_ ABSL_GUARDED_BY(reader_mu_);          // not before
};

}  // namespace nerf
