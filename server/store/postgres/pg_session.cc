#include "server/store/postgres/pg_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "common/error_reason.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "server/store/postgres/pg_schema.h"
#include "server/store/postgres/pg_statements.h"

namespace nerf {
namespace {

// Key of the advisory lock, the bytes of "nerfd". pg_locks shows it in two halves.
constexpr int64_t kLockKey = 0x6e65726664;

// Between two tries. Locks and connections have no event to wait for.
constexpr absl::Duration kPause = absl::Milliseconds(50);
// A connection of ours that is lost may still be committing. After this time it is ended.
constexpr absl::Duration kOldSessionGrace = absl::Seconds(1);

// A replica has this time from taking the lock to its lease; then others may end its session.
constexpr char kCandidateGrace[] = "30 s";

#define NERF_HAS_LOCK                                                                  \
  "l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 "                          \
  "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) " \
  "AND l.classid = ($1::bigint >> 32)::oid AND l.objid = ($1::bigint & 4294967295)::oid "

// Who has the lock. Sessions of other users do not show their names.
constexpr char kHolderSql[] =
    "SELECT l.pid::text, coalesce(a.application_name, ''), "
    "  coalesce('from ' || host(a.client_addr), 'on its machine') "
    "FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid) WHERE " NERF_HAS_LOCK;

// Ends the session of a replica that has the lock and no lease.
constexpr char kEndExpiredSql[] =
    "SELECT pg_terminate_backend(l.pid)::text, a.application_name "
    "FROM leader, pg_locks l JOIN pg_stat_activity a USING (pid) "
    "WHERE " NERF_HAS_LOCK
    "AND leader.expires <= clock_timestamp() AND (a.application_name = leader.holder "
    "  OR a.application_name LIKE $2 || '%' "
    "    AND a.backend_start <= clock_timestamp() - $3::interval)";
#undef NERF_HAS_LOCK

// One statement, so that no nerfd can stop in the middle. FOR UPDATE looks again at a lease that is
// renewed at the same time. Without a lease: `holder` is ''.
constexpr char kBeginTermSql[] = R"sql(
    WITH free AS (SELECT FROM leader WHERE expires <= clock_timestamp() FOR UPDATE),
    begun AS (
      UPDATE term SET number = number + 1, holder = $1, since = now() FROM free
      RETURNING number, commits),
    seat AS (
      UPDATE leader SET term = begun.number, holder = $2, grpc_address = $3, web_address = $4,
        expires = CASE WHEN $2 = '' THEN '-infinity' ELSE clock_timestamp() + $5::interval END
      FROM begun)
    SELECT number::text, commits::text FROM begun)sql";

constexpr char kAlone[] = "nerfd ", kReplica[] = "nerfd-replica ";

std::string NewHolder(const char* kind, RandomSource& random) {
  constexpr size_t kMaxHost = 28;  // application_name has at most 63 bytes
  char host[256] = "?";
  gethostname(host, sizeof(host) - 1);
  std::array<uint8_t, 4> bytes;
  random.Fill(bytes);
  return fmt::format("{}{}:{}:{}", kind, std::string(host).substr(0, kMaxHost), getpid(),
                     absl::BytesToHexString(absl::string_view(
                         reinterpret_cast<const char*>(bytes.data()), bytes.size())));
}

absl::Status NoPostgres(const std::string& what) {
  return WithReason(absl::UnavailableError(what), reason::kStoreReadOnly);
}

bool IsReadOnly(const absl::Status& status) {
  const auto found = GetReason(status);
  return found.has_value() && found->reason == reason::kStoreReadOnly;
}

}  // namespace

PgSession::PgSession(PgSessionOptions options, std::string holder)
    : options_(std::move(options)),
      holder_(std::move(holder)),
      commit_count_(options_.commits_file, "the PostgreSQL database") {}

absl::StatusOr<std::unique_ptr<PgSession>> PgSession::Open(const PgSessionOptions& options,
                                                           RandomSource& random) {
  std::unique_ptr<PgSession> session(
      new PgSession(options, NewHolder(options.seat.is_one() ? kReplica : kAlone, random)));
  MutexLock lock(session->mu_);
  const SteadyTime give_up = session->clock_.Now() + options.lock_wait;
  NERF_ASSIGN_OR_RETURN(auto connection, session->Connect(give_up));
  NERF_RETURN_IF_ERROR(OpenPgSchema(*connection, random));
  NERF_RETURN_IF_ERROR(session->BeginTerm(*connection, give_up));
  if (!options.commits_file.empty()) {
    NERF_RETURN_IF_ERROR(session->CheckCommits(*connection, random));
  }
  NERF_RETURN_IF_ERROR(connection->Prepare(Statements().All()));
  LogInfo("store in PostgreSQL", {{"place", connection->place()}, {"term", session->term_}});
  session->connection_ = std::move(connection);
  return session;
}

absl::StatusOr<std::unique_ptr<PgConnection>> PgSession::Connect(SteadyTime give_up) {
  NERF_ASSIGN_OR_RETURN(auto connection, PgConnection::Open(options_.uri, holder_));
  NERF_RETURN_IF_ERROR(TakeLock(*connection, give_up));
  return connection;
}

absl::Status PgSession::TakeLock(PgConnection& connection, SteadyTime give_up) {
  const SteadyTime start = clock_.Now();
  bool waits = false;
  while (true) {
    NERF_ASSIGN_OR_RETURN(
        const auto taken,
        connection.Query(fmt::format("SELECT pg_try_advisory_lock({})::text", kLockKey)));
    if (taken[0][0] == "true") return absl::OkStatus();
    NERF_ASSIGN_OR_RETURN(const auto holders,
                          connection.Query(kHolderSql, {std::to_string(kLockKey)}));
    const StoreRow holder = holders.empty() ? StoreRow{"?", "?", ""} : holders[0];
    const bool is_ours = holder[1] == holder_;
    const std::string who =
        fmt::format("{} (session {}, connected {})",
                    holder[1].empty() ? "another session" : holder[1], holder[0], holder[2]);
    if (is_ours && clock_.Now() - start > kOldSessionGrace) {
      NERF_RETURN_IF_ERROR(
          connection.Query("SELECT pg_terminate_backend($1::int)::text", {holder[0]}).status());
    }
    if (term_ == 0 && options_.seat.is_one()) NERF_RETURN_IF_ERROR(EndExpired(connection));
    // Whoever has begun a term goes on with it.
    if (term_ != 0 && !is_ours) NERF_RETURN_IF_ERROR(ReadCommits(connection).status());
    if (clock_.Now() >= give_up) {
      return absl::FailedPreconditionError(
          fmt::format("the {} is in use by {}", connection.place(), who));
    }
    if (!std::exchange(waits, true) && !is_ours && !options_.seat.is_one()) {
      LogInfo("waiting for the database", {{"place", connection.place()}, {"holder", who}});
    }
    absl::SleepFor(kPause);
  }
}

absl::Status PgSession::EndExpired(PgConnection& connection) {
  // A database that no replica has used yet has no such table.
  NERF_ASSIGN_OR_RETURN(const auto table,
                        connection.Query("SELECT coalesce(to_regclass('nerfd.leader')::text, '')"));
  if (table[0][0].empty()) return absl::OkStatus();
  NERF_ASSIGN_OR_RETURN(
      const auto ended,
      connection.Query(kEndExpiredSql, {std::to_string(kLockKey), kReplica, kCandidateGrace}));
  for (const StoreRow& row : ended) {
    LogWarning("ended the session of a nerfd whose lease is over", {{"holder", row[1]}});
  }
  return absl::OkStatus();
}

absl::Status PgSession::BeginTerm(PgConnection& connection, SteadyTime give_up) {
  const ReplicaSeat& seat = options_.seat;
  while (true) {
    began_ = clock_.Now();
    NERF_ASSIGN_OR_RETURN(
        const auto rows,
        connection.Query(
            kBeginTermSql,
            {holder_, seat.is_one() ? holder_ : "", seat.grpc_address, seat.web_address,
             fmt::format("{} ms", absl::ToInt64Milliseconds(seat.lease))}));
    if (rows.size() == 1 && absl::SimpleAtoi(rows[0][0], &term_) &&
        absl::SimpleAtoi(rows[0][1], &n_commits_)) {
      return absl::OkStatus();
    }
    NERF_ASSIGN_OR_RETURN(const auto leader,
                          connection.Query("SELECT l.holder FROM leader l, term"));
    if (leader.size() != 1) {
      return WithReason(absl::DataLossError("the database has no row `term`, or no row `leader`"),
                        reason::kStoreCorrupt);
    }
    if (clock_.Now() >= give_up) {
      return absl::FailedPreconditionError(
          fmt::format("the {} is in use by {}", connection.place(), leader[0][0]));
    }
    absl::SleepFor(kPause);
  }
}

uint64_t PgSession::term() const {
  MutexLock lock(mu_);
  return term_;
}

SteadyTime PgSession::began() const {
  MutexLock lock(mu_);
  return began_;
}

absl::Status PgSession::CheckCommits(PgConnection& connection, RandomSource& random) {
  constexpr char kEpoch[] = "SELECT value FROM meta WHERE key = 'store_epoch'";
  NERF_ASSIGN_OR_RETURN(auto epoch, connection.Query(kEpoch));
  const absl::Status missing = commit_count_.Check(epoch[0][0], n_commits_);
  if (!missing.ok()) {
    if (!options_.accept_data_loss) return missing;
    LogWarning("starting without commits that were acknowledged",
               {{"error", std::string(missing.message())}});
    NERF_RETURN_IF_ERROR(DrawPgSecrets(connection, random, /*anew=*/true));
    NERF_ASSIGN_OR_RETURN(epoch, connection.Query(kEpoch));
  }
  return commit_count_.Begin(epoch[0][0], n_commits_);
}

void PgSession::SetCommits(uint64_t n_commits) {
  n_commits_ = n_commits;
  if (!options_.commits_file.empty()) commit_count_.Set(n_commits);
}

absl::StatusOr<uint64_t> PgSession::ReadCommits(PgConnection& connection) {
  NERF_ASSIGN_OR_RETURN(
      const auto rows,
      connection.Query("SELECT number::text, commits::text, holder, since::text FROM term"));
  uint64_t number = 0, commits = 0;
  if (rows.size() != 1 || !absl::SimpleAtoi(rows[0][0], &number) ||
      !absl::SimpleAtoi(rows[0][1], &commits)) {
    return Break(
        WithReason(absl::DataLossError("the database has no row `term`"), reason::kStoreCorrupt));
  }
  if (number != term_) {
    return Break(
        NoPostgres(fmt::format("the {} belongs to {} since {}: this nerfd stores nothing "
                               "any more; end it",
                               connection.place(), rows[0][2], rows[0][3])));
  }
  return commits;
}

absl::Status PgSession::CheckCount(uint64_t commits) {
  if (commits < n_commits_) {
    return Break(
        WithReason(absl::DataLossError(fmt::format("PostgreSQL has lost {} acknowledged commits",
                                                   n_commits_ - commits)),
                   reason::kStoreCorrupt));
  }
  if (commits > n_commits_ + (fate_unknown_ ? 1 : 0)) {
    return Break(absl::InternalError("something else than nerfd has changed the row `term`"));
  }
  return absl::OkStatus();
}

absl::Status PgSession::EnsureConnected(SteadyTime give_up) {
  if (!broken_.ok()) return broken_;
  if (connection_ != nullptr && connection_->ok()) return absl::OkStatus();
  connection_.reset();
  absl::StatusOr<std::unique_ptr<PgConnection>> connection = Connect(give_up);
  // Another nerfd may hold the lock for a while and find that it is not alone, too.
  if (absl::IsFailedPrecondition(connection.status())) {
    return NoPostgres(std::string(connection.status().message()));
  }
  NERF_RETURN_IF_ERROR(connection.status());
  NERF_ASSIGN_OR_RETURN(const uint64_t commits, ReadCommits(**connection));
  NERF_RETURN_IF_ERROR(CheckCount(commits));
  NERF_RETURN_IF_ERROR((*connection)->Prepare(Statements().All()));
  SetCommits(commits);
  connection_ = *std::move(connection);
  LogInfo("connected to PostgreSQL again", {{"commits", commits}});
  return absl::OkStatus();
}

PgCommand PgSession::CountCommit() const {
  return {&Statements().count_commit,
          {std::to_string(term_), std::to_string(n_commits_)},
          /*must_change=*/true};
}

absl::Status PgSession::Undo(absl::Status status) {
  if (connection_->ok()) connection_->Exec("ROLLBACK").IgnoreError();
  if (!connection_->ok()) {
    LogWarning("lost PostgreSQL", {{"error", std::string(status.message())}});
    connection_.reset();
  }
  return status;
}

absl::Status PgSession::Break(absl::Status status) {
  LogError("the store failed: no more writes until a restart",
           {{"error", std::string(status.message())}});
  read_only_ = true;
  is_broken_ = true;
  broken_ = std::move(status);
  return broken_;
}

absl::Status PgSession::Commit() {
  const uint64_t before = n_commits_;
  absl::Status status = connection_->Commit();
  if (status.ok()) {
    SetCommits(n_commits_ + 1);
    return status;
  }
  LogWarning("the answer to a commit is lost", {{"error", std::string(status.message())}});
  // A connection that refused is ended like a lost one: the new one sees what is stored.
  connection_.reset();
  fate_unknown_ = true;
  const SteadyTime give_up = clock_.Now() + options_.resolve_for;
  while (true) {
    const absl::Status connected = EnsureConnected(give_up);
    if (connected.ok()) break;
    if (!broken_.ok()) return broken_;
    if (clock_.Now() >= give_up) {
      return Break(absl::InternalError(fmt::format(
          "it is unknown whether a commit happened, because PostgreSQL has not come back: {}",
          std::string(connected.message()))));
    }
    absl::SleepFor(kPause);
  }
  fate_unknown_ = false;
  const bool committed = n_commits_ == before + 1;
  LogInfo("the fate of the commit is known", {{"committed", committed}});
  return committed ? absl::OkStatus() : status;
}

std::optional<PgRefusal> PgSession::Try(std::span<const PgCommand> commands) {
  const PgRun run = connection_->Run(commands);
  if (run.status.ok()) {
    absl::Status committed = Commit();
    if (committed.ok()) return std::nullopt;
    return PgRefusal{std::move(committed), std::nullopt};
  }
  absl::Status status = Undo(run.status);
  // The first command begins the transaction, the last one counts the commit.
  if (connection_ == nullptr || run.n_done == 0) return PgRefusal{std::move(status), std::nullopt};
  if (run.n_done < commands.size() - 1) return PgRefusal{std::move(status), run.n_done - 1};
  if (absl::IsFailedPrecondition(status)) {
    const absl::StatusOr<uint64_t> commits = ReadCommits(*connection_);
    status = commits.ok() ? CheckCount(*commits) : commits.status();
  }
  return PgRefusal{std::move(status), std::nullopt};
}

std::optional<PgRefusal> PgSession::Transact(std::vector<PgCommand> commands) {
  MutexLock lock(mu_);
  // While PostgreSQL is away, one try a call: the first call has waited for it.
  const bool is_away = read_only_ && connection_ == nullptr;
  const SteadyTime give_up = clock_.Now() + (is_away ? absl::ZeroDuration() : options_.retry_for);
  commands.insert(commands.begin(), {&Statements().begin, {}});
  commands.emplace_back();
  while (true) {
    absl::Status status = EnsureConnected(give_up);
    if (status.ok()) {
      commands.back() = CountCommit();
      std::optional<PgRefusal> refusal = Try(commands);
      if (!refusal.has_value()) {
        read_only_ = false;
        return refusal;
      }
      if (refusal->command.has_value()) {
        if (IsReadOnly(refusal->status)) read_only_ = true;
        return refusal;
      }
      status = refusal->status;
    }
    if (!broken_.ok()) return PgRefusal{broken_, std::nullopt};
    if (clock_.Now() >= give_up) {
      read_only_ = true;
      return PgRefusal{NoPostgres(std::string(status.message())), std::nullopt};
    }
    absl::SleepFor(kPause);
  }
}

absl::Status PgSession::TransactOnce(const std::function<absl::Status(PgConnection&)>& body) {
  MutexLock lock(mu_);
  NERF_RETURN_IF_ERROR(EnsureConnected(clock_.Now() + options_.retry_for));
  absl::Status status = connection_->Exec("BEGIN");
  if (status.ok()) status = body(*connection_);
  if (status.ok()) {
    const PgCommand count[] = {CountCommit()};
    status = connection_->Run(count).status;
  }
  if (!status.ok()) return Undo(std::move(status));
  return Commit();
}

absl::Status PgSession::Read(const std::function<absl::Status(PgConnection&)>& body) {
  MutexLock lock(mu_);
  const SteadyTime give_up = clock_.Now() + options_.retry_for;
  while (true) {
    absl::Status status = EnsureConnected(give_up);
    if (status.ok()) {
      status = body(*connection_);
      if (status.ok() || connection_->ok()) return status;
      connection_.reset();
    }
    if (!broken_.ok() || clock_.Now() >= give_up) return status;
    absl::SleepFor(kPause);
  }
}

absl::Status PgSession::ReadBeside(const std::function<absl::Status(PgConnection&)>& body) {
  constexpr absl::Duration kReconnectPause = absl::Seconds(1);
  MutexLock lock(reader_mu_);
  while (true) {
    if (reader_ == nullptr) {
      if (clock_.Now() < connect_reader_at_) return NoPostgres("PostgreSQL does not answer");
      connect_reader_at_ = clock_.Now() + kReconnectPause;
      NERF_ASSIGN_OR_RETURN(reader_, PgConnection::Open(options_.uri, holder_));
    }
    const absl::Status status = body(*reader_);
    if (status.ok() || reader_->ok()) return status;
    reader_.reset();
  }
}

}  // namespace nerf
