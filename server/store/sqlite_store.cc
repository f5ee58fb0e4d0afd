#include "server/store/sqlite_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/error_reason.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "server/store/curve_codec.h"
#include "server/store/record_codec.h"
#include "server/store/row_seal.h"
#include "server/store/schema.h"
#include "server/store/sqlite_statement.h"

namespace nerf {

namespace fs = std::filesystem;

struct SqliteStore::Statements {
  SqliteStatement begin, commit, rollback;
  SqliteStatement savepoint, undo_savepoint, release_savepoint;
  SqliteStatement insert_job, update_job, delete_job, job_epoch;
  SqliteStatement insert_event, trim_events;
  SqliteStatement insert_curve, delete_curve, curve_of;
  SqliteStatement insert_scene, delete_scene, insert_model, delete_model;
  SqliteStatement insert_request, forget_requests, set_meta;
  SqliteStatement forget_requests_of, put_project, drain_worker, undrain_worker;
};

namespace {

absl::Status Ran(const absl::StatusOr<int>& result) { return result.status(); }

// True for errors that concern only one write (a stale lease, a taken name). Any other error aborts
// the whole transaction.
bool IsOfTheWrite(const absl::Status& error) {
  return absl::IsFailedPrecondition(error) || absl::IsAlreadyExists(error);
}

// Makes the file, if there is none, and lets nobody but its owner read it: it holds a secret.
// SQLite gives its side files the same mode. An open file is not opened again: closing it would end
// the locks that this process holds on it. Where it cannot be made, SQLite says why.
void KeepPrivate(const std::string& path) {
  struct stat found = {};
  if (stat(path.c_str(), &found) != 0) {
    const UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  } else if ((found.st_mode & 0077) != 0) {
    for (const char* suffix : {"", "-wal", "-shm"}) chmod((path + suffix).c_str(), 0600);
  }
}

absl::StatusOr<sqlite3*> OpenFile(const std::string& path) {
  KeepPrivate(path);
  sqlite3* db = nullptr;
  const int code = sqlite3_open_v2(
      path.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  if (code == SQLITE_OK) return db;
  absl::Status status = SqliteError(db, code, "open " + path);
  sqlite3_close(db);
  return status;
}

bool IsFull(const absl::Status& status) {
  const auto found = GetReason(status);
  return found.has_value() && found->reason == reason::kStoreReadOnly;
}

absl::Status MissingCommits(bool is_same_store, uint64_t n_there, uint64_t n_acknowledged) {
  const std::string what =
      is_same_store
          ? fmt::format(
                "{} of {} acknowledged commits are missing from queue.db: its log is damaged "
                "or lost, or an older copy was put back",
                n_acknowledged - n_there, n_acknowledged)
          : std::string("queue.db is another store than the one that queue.db.commits counts");
  return WithReason(absl::DataLossError(what), reason::kStoreCorrupt);
}

// The full check, since the quick one does not compare indexes with tables: jobs are read by one.
absl::Status IntegrityCheck(sqlite3* db) {
  NERF_ASSIGN_OR_RETURN(auto check, SqliteStatement::Prepare(db, "PRAGMA integrity_check(1)"));
  NERF_ASSIGN_OR_RETURN(const auto row, check.Step());
  if (row && check.Text(0) != "ok") {
    return WithReason(absl::DataLossError("the store is damaged: " + check.Text(0)),
                      reason::kStoreCorrupt);
  }
  return absl::OkStatus();
}

// Writes what the log holds into the file and syncs both. The pages of a log whose sync failed in
// an earlier process may be in memory and not on disk; a sync would not write them again.
absl::Status WriteAnew(sqlite3* db) {
  const absl::Status written = SqliteExec(db, "PRAGMA wal_checkpoint(TRUNCATE)");
  if (!IsFull(written)) return written;
  LogWarning("the disk is full: the store's log is not written into its file");
  return absl::OkStatus();
}

// Calls `visit` for every row of a query.
template <typename Visit>
absl::Status ForEachRow(sqlite3* db, std::string_view sql, Visit visit) {
  NERF_ASSIGN_OR_RETURN(auto statement, SqliteStatement::Prepare(db, sql));
  while (true) {
    NERF_ASSIGN_OR_RETURN(const auto row, statement.Step());
    if (!row) return absl::OkStatus();
    NERF_RETURN_IF_ERROR(visit(statement));
  }
}

// The other columns of a row, for its seal.
std::vector<std::string> ColumnsOf(const Job& job) {
  return {job.key.project,
          job.key.id,
          std::to_string(job.create_sequence),
          std::string(JobStateName(job.state)),
          absl::StrJoin(job.lease.members, ","),
          std::to_string(job.lease.epoch)};
}
std::vector<std::string> ColumnsOf(const ResourceKey& job, const JobEvent& event) {
  return {job.project, job.id, std::to_string(event.sequence),
          std::string(JobEventKindName(event.kind))};
}
template <typename Record>  // a scene or a model
std::vector<std::string> ColumnsOf(const Record& record) {
  return {record.key.project, record.key.id, std::to_string(record.create_sequence)};
}

absl::Status LoadJobs(sqlite3* db, StoredState* stored) {
  return ForEachRow(
      db,
      "SELECT project, id, create_sequence, state, lease_worker, lease_epoch, body FROM jobs "
      "ORDER BY create_sequence",
      [&](const SqliteStatement& row) {
        Job& job = stored->jobs.emplace_back();
        job.key = {row.Text(0), row.Text(1)};
        job.create_sequence = row.Number(2);
        const auto state = ParseJobState(row.Text(3));
        if (!state.ok()) {
          return WithReason(absl::DataLossError(state.status().message()), reason::kStoreCorrupt);
        }
        job.state = *state;
        // Ids of workers have no comma.
        job.lease.members = absl::StrSplit(row.Text(4), ',', absl::SkipEmpty());
        job.lease.epoch = row.Number(5);
        NERF_ASSIGN_OR_RETURN(const std::string body, UnsealRow(row.Text(6), ColumnsOf(job)));
        return DecodeJobBody(body, &job);
      });
}

absl::Status LoadEvents(sqlite3* db, StoredState* stored) {
  return ForEachRow(
      db,
      "SELECT project, job, sequence, kind, body FROM job_events ORDER BY project, job, sequence",
      [&](const SqliteStatement& row) {
        auto& [key, event] = stored->events.emplace_back();
        key = {row.Text(0), row.Text(1)};
        event.sequence = row.Number(2);
        const auto kind = ParseJobEventKind(row.Text(3));
        if (!kind.ok()) {
          return WithReason(absl::DataLossError(kind.status().message()), reason::kStoreCorrupt);
        }
        event.kind = *kind;
        NERF_ASSIGN_OR_RETURN(const std::string body,
                              UnsealRow(row.Text(4), ColumnsOf(key, event)));
        return DecodeEventBody(body, &event);
      });
}

absl::Status LoadSettings(sqlite3* db, StoredState* stored) {
  NERF_RETURN_IF_ERROR(
      ForEachRow(db, "SELECT project, body FROM projects", [&](const SqliteStatement& row) {
        ProjectRecord& project = stored->projects.emplace_back();
        project.project = row.Text(0);
        NERF_ASSIGN_OR_RETURN(const std::string body, UnsealRow(row.Text(1), {row.Text(0)}));
        return DecodeProjectBody(body, &project);
      }));
  return ForEachRow(db, "SELECT worker FROM drained_workers", [&](const SqliteStatement& row) {
    stored->drained_workers.push_back(row.Text(0));
    return absl::OkStatus();
  });
}

absl::Status LoadCatalogs(sqlite3* db, StoredState* stored) {
  NERF_RETURN_IF_ERROR(ForEachRow(
      db, "SELECT project, id, create_sequence, body FROM scenes ORDER BY create_sequence",
      [&](const SqliteStatement& row) {
        SceneRecord& scene = stored->scenes.emplace_back();
        scene.key = {row.Text(0), row.Text(1)};
        scene.create_sequence = row.Number(2);
        NERF_ASSIGN_OR_RETURN(const std::string body, UnsealRow(row.Text(3), ColumnsOf(scene)));
        return DecodeSceneBody(body, &scene);
      }));
  NERF_RETURN_IF_ERROR(ForEachRow(
      db, "SELECT project, id, create_sequence, body FROM models ORDER BY create_sequence",
      [&](const SqliteStatement& row) {
        ModelRecord& model = stored->models.emplace_back();
        model.key = {row.Text(0), row.Text(1)};
        model.create_sequence = row.Number(2);
        NERF_ASSIGN_OR_RETURN(const std::string body, UnsealRow(row.Text(3), ColumnsOf(model)));
        return DecodeModelBody(body, &model);
      }));
  return ForEachRow(
      db, "SELECT project, request_id, kind, resource_id, fingerprint, create_time FROM requests",
      [&](const SqliteStatement& row) {
        stored->requests.push_back({static_cast<RequestRecord::Kind>(row.Number(2)), row.Text(0),
                                    row.Text(1), row.Text(3), row.Text(4),
                                    absl::FromUnixMicros(static_cast<int64_t>(row.Number(5)))});
        return absl::OkStatus();
      });
}

}  // namespace

SqliteStore::SqliteStore(sqlite3* db, std::string path, const SqliteStoreOptions& options)
    : path_(std::move(path)), options_(options), db_(db) {}

SqliteStore::~SqliteStore() {
  MutexLock lock(mu_);
  statements_.reset();
  sqlite3_close(db_);
}

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::Open(const std::string& path,
                                                               RandomSource& random,
                                                               const SqliteStoreOptions& options) {
  sqlite3* db = nullptr;
  if (options.in_memory) {
    NERF_ASSIGN_OR_RETURN(db, OpenSqliteCopy(path, "meta"));
  } else {
    NERF_ASSIGN_OR_RETURN(db, OpenFile(path));
  }
  auto store = std::unique_ptr<SqliteStore>(new SqliteStore(db, path, options));
  sqlite3_busy_timeout(db, 1000);
  // Exclusive: refuses a second server on the same folder. defensive and trusted_schema = OFF: a
  // crafted file can contain wrong data but not run code.
  absl::Status status = SqliteExec(db, "PRAGMA locking_mode = EXCLUSIVE");
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  if (status.ok()) status = SqliteExec(db, "PRAGMA journal_mode = WAL");
  if (status.ok()) status = SqliteExec(db, "PRAGMA synchronous = FULL");
  if (status.ok()) status = SqliteExec(db, "BEGIN IMMEDIATE; COMMIT");  // takes the lock now
  if (status.ok()) status = IntegrityCheck(db);
  if (status.ok()) status = MigrateSchema(db, random);
  if (status.ok()) status = store->Prepare();
  if (status.ok()) status = store->CheckCommits(random);
  if (status.ok()) status = WriteAnew(db);
  // The name of a new file is durable before anything in it is acknowledged.
  if (status.ok() && !options.in_memory) {
    status = FsyncDirectory(fs::absolute(path).parent_path().string());
  }
  NERF_RETURN_IF_ERROR(status);
  return store;
}

absl::Status SqliteStore::Prepare() {
  MutexLock lock(mu_);
  statements_ = std::make_unique<Statements>();
  const std::pair<SqliteStatement*, std::string_view> all[] = {
      {&statements_->begin, "BEGIN IMMEDIATE"},
      {&statements_->commit, "COMMIT"},
      {&statements_->rollback, "ROLLBACK"},
      {&statements_->savepoint, "SAVEPOINT one_write"},
      {&statements_->undo_savepoint, "ROLLBACK TO one_write"},
      {&statements_->release_savepoint, "RELEASE one_write"},
      {&statements_->insert_job,
       "INSERT INTO jobs (state, lease_worker, lease_epoch, body, project, id, create_sequence) "
       "VALUES (?, ?, ?, ?, ?, ?, ?)"},
      {&statements_->update_job,
       "UPDATE jobs SET state = ?, lease_worker = ?, lease_epoch = ?, body = ? "
       "WHERE project = ? AND id = ? AND lease_epoch = ?"},
      {&statements_->delete_job, "DELETE FROM jobs WHERE project = ? AND id = ?"},
      {&statements_->job_epoch, "SELECT lease_epoch FROM jobs WHERE project = ? AND id = ?"},
      {&statements_->insert_event,
       "INSERT INTO job_events (project, job, sequence, kind, body) VALUES (?, ?, ?, ?, ?)"},
      {&statements_->trim_events,
       "DELETE FROM job_events WHERE project = ? AND job = ? AND sequence <= ?"},
      {&statements_->insert_curve,
       "INSERT OR REPLACE INTO job_curves (project, job, body) VALUES (?, ?, ?)"},
      {&statements_->delete_curve, "DELETE FROM job_curves WHERE project = ? AND job = ?"},
      {&statements_->curve_of, "SELECT body FROM job_curves WHERE project = ? AND job = ?"},
      {&statements_->insert_scene,
       "INSERT INTO scenes (project, id, create_sequence, body) VALUES (?, ?, ?, ?)"},
      {&statements_->delete_scene, "DELETE FROM scenes WHERE project = ? AND id = ?"},
      {&statements_->insert_model,
       "INSERT INTO models (project, id, create_sequence, body) VALUES (?, ?, ?, ?)"},
      {&statements_->delete_model, "DELETE FROM models WHERE project = ? AND id = ?"},
      {&statements_->insert_request,
       "INSERT OR REPLACE INTO requests (project, request_id, kind, resource_id, fingerprint, "
       "create_time) "
       "VALUES (?, ?, ?, ?, ?, ?)"},
      {&statements_->set_meta, "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)"},
      {&statements_->forget_requests, "DELETE FROM requests WHERE create_time < ?"},
      {&statements_->forget_requests_of,
       "DELETE FROM requests WHERE project = ? AND create_time < ?"},
      {&statements_->put_project, "INSERT OR REPLACE INTO projects (project, body) VALUES (?, ?)"},
      {&statements_->drain_worker, "INSERT OR REPLACE INTO drained_workers (worker) VALUES (?)"},
      {&statements_->undrain_worker, "DELETE FROM drained_workers WHERE worker = ?"},
  };
  for (const auto& [statement, sql] : all) {
    NERF_ASSIGN_OR_RETURN(auto prepared, SqliteStatement::Prepare(db_, sql));
    *statement = std::move(prepared);
  }
  return absl::OkStatus();
}

absl::StatusOr<StoredState> SqliteStore::Load() {
  MutexLock lock(mu_);
  StoredState stored;
  stored.token_secret = token_secret_;
  absl::Status status =
      ForEachRow(db_, "SELECT value FROM meta WHERE key = 'store_epoch'", [&](const auto& row) {
        stored.store_epoch = row.Text(0);
        return absl::OkStatus();
      });
  if (status.ok()) {
    status = ForEachRow(db_, "SELECT value FROM meta WHERE key = 'age'", [&](const auto& row) {
      int64_t micros = 0;
      if (absl::SimpleAtoi(row.Text(0), &micros)) stored.age = absl::FromUnixMicros(micros);
      return absl::OkStatus();
    });
  }
  if (status.ok() && stored.store_epoch.empty()) {
    status = WithReason(absl::DataLossError("the store has no epoch"), reason::kStoreCorrupt);
  }
  if (status.ok()) status = LoadJobs(db_, &stored);
  if (status.ok()) status = LoadEvents(db_, &stored);
  if (status.ok()) status = LoadCatalogs(db_, &stored);
  if (status.ok()) status = LoadSettings(db_, &stored);
  NERF_RETURN_IF_ERROR(status);
  return stored;
}

absl::StatusOr<TrainingCurve> SqliteStore::LoadCurve(const ResourceKey& job) {
  MutexLock lock(mu_);
  SqliteStatement& query = statements_->curve_of;
  NERF_ASSIGN_OR_RETURN(const auto row, query.Bind(job.project).Bind(job.id).Step());
  if (!row) return TrainingCurve();
  const std::string sealed = query.Text(0);
  query.Reset();
  NERF_ASSIGN_OR_RETURN(const std::string body, UnsealRow(sealed, {job.project, job.id}));
  return DecodeCurve(body);
}

absl::Status SqliteStore::WriteJob(const JobWrite& write) {
  const Job& job = write.job;
  const bool is_new = !write.expected_epoch.has_value();
  SqliteStatement& statement = is_new ? statements_->insert_job : statements_->update_job;
  statement.Bind(JobStateName(job.state)).Bind(absl::StrJoin(job.lease.members, ","));
  statement.Bind(job.lease.epoch);
  statement.BindBlob(SealRow(EncodeJobBody(job), ColumnsOf(job)))
      .Bind(job.key.project)
      .Bind(job.key.id);
  statement.Bind(is_new ? job.create_sequence : *write.expected_epoch);
  NERF_ASSIGN_OR_RETURN(const int changes, statement.Run());
  if (changes == 1) return absl::OkStatus();

  SqliteStatement& query = statements_->job_epoch;
  NERF_ASSIGN_OR_RETURN(const auto row, query.Bind(job.key.project).Bind(job.key.id).Step());
  const std::string current = row ? std::to_string(query.Number(0)) : "none";
  query.Reset();
  return WithReason(
      absl::FailedPreconditionError(fmt::format("{} is at lease epoch {}, not {}", JobName(job.key),
                                                current, *write.expected_epoch)),
      reason::kLeaseFenced, {{"current_epoch", current}});
}

absl::Status SqliteStore::WriteAll(const StoreWrite& write) {
  Statements& s = *statements_;
  for (const JobWrite& job : write.jobs) NERF_RETURN_IF_ERROR(WriteJob(job));
  for (const auto& [key, event] : write.events) {
    s.insert_event.Bind(key.project).Bind(key.id).Bind(event.sequence);
    NERF_RETURN_IF_ERROR(Ran(s.insert_event.Bind(JobEventKindName(event.kind))
                                 .BindBlob(SealRow(EncodeEventBody(event), ColumnsOf(key, event)))
                                 .Run()));
  }
  for (const auto& [key, sequence] : write.trimmed_events) {
    NERF_RETURN_IF_ERROR(Ran(s.trim_events.Bind(key.project).Bind(key.id).Bind(sequence).Run()));
  }
  for (const auto& [key, curve] : write.curves) {
    s.insert_curve.Bind(key.project).Bind(key.id);
    NERF_RETURN_IF_ERROR(
        Ran(s.insert_curve.BindBlob(SealRow(EncodeCurve(curve), {key.project, key.id})).Run()));
  }
  for (const ResourceKey& key : write.deleted_jobs) {
    NERF_RETURN_IF_ERROR(Ran(s.delete_job.Bind(key.project).Bind(key.id).Run()));
    NERF_RETURN_IF_ERROR(Ran(s.delete_curve.Bind(key.project).Bind(key.id).Run()));
  }
  for (const SceneRecord& scene : write.new_scenes) {
    s.insert_scene.Bind(scene.key.project).Bind(scene.key.id).Bind(scene.create_sequence);
    NERF_RETURN_IF_ERROR(
        Ran(s.insert_scene.BindBlob(SealRow(EncodeSceneBody(scene), ColumnsOf(scene))).Run()));
  }
  for (const ResourceKey& key : write.deleted_scenes) {
    NERF_RETURN_IF_ERROR(Ran(s.delete_scene.Bind(key.project).Bind(key.id).Run()));
  }
  for (const ModelRecord& model : write.new_models) {
    s.insert_model.Bind(model.key.project).Bind(model.key.id).Bind(model.create_sequence);
    NERF_RETURN_IF_ERROR(
        Ran(s.insert_model.BindBlob(SealRow(EncodeModelBody(model), ColumnsOf(model))).Run()));
  }
  for (const ResourceKey& key : write.deleted_models) {
    NERF_RETURN_IF_ERROR(Ran(s.delete_model.Bind(key.project).Bind(key.id).Run()));
  }
  for (const RequestRecord& request : write.new_requests) {
    s.insert_request.Bind(request.project).Bind(request.request_id);
    s.insert_request.Bind(static_cast<uint64_t>(request.kind)).Bind(request.resource_id);
    s.insert_request.Bind(request.fingerprint).BindInt(absl::ToUnixMicros(request.create_time));
    NERF_RETURN_IF_ERROR(Ran(s.insert_request.Run()));
  }
  if (write.age.has_value()) {
    NERF_RETURN_IF_ERROR(
        Ran(s.set_meta.Bind("age").Bind(std::to_string(absl::ToUnixMicros(*write.age))).Run()));
  }
  if (write.forget_requests_before.has_value()) {
    s.forget_requests.BindInt(absl::ToUnixMicros(*write.forget_requests_before));
    NERF_RETURN_IF_ERROR(Ran(s.forget_requests.Run()));
  }
  return WriteSettings(write);
}

absl::Status SqliteStore::WriteSettings(const StoreWrite& write) {
  Statements& s = *statements_;
  for (const ProjectRecord& project : write.projects) {
    s.put_project.Bind(project.project);
    NERF_RETURN_IF_ERROR(
        Ran(s.put_project.BindBlob(SealRow(EncodeProjectBody(project), {project.project})).Run()));
  }
  for (const auto& [worker, drained] : write.drained_workers) {
    NERF_RETURN_IF_ERROR(Ran((drained ? s.drain_worker : s.undrain_worker).Bind(worker).Run()));
  }
  for (const auto& [project, before] : write.forget_requests_of) {
    s.forget_requests_of.Bind(project).BindInt(absl::ToUnixMicros(before));
    NERF_RETURN_IF_ERROR(Ran(s.forget_requests_of.Run()));
  }
  return absl::OkStatus();
}

absl::Status SqliteStore::CopyTo(const std::string& path) {
  constexpr int kPagesPerStep = 256;  // 1 MiB; commits wait for a step
  KeepPrivate(path);
  sqlite3* copy = nullptr;
  int code =
      sqlite3_open_v2(path.c_str(), &copy,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  sqlite3_backup* backup = nullptr;
  if (code == SQLITE_OK) {
    MutexLock lock(mu_);
    backup = sqlite3_backup_init(copy, "main", db_, "main");
    if (backup == nullptr) code = sqlite3_errcode(copy);
  }
  while (code == SQLITE_OK) {
    MutexLock lock(mu_);
    code = sqlite3_backup_step(backup, kPagesPerStep);
  }
  if (backup != nullptr) {
    MutexLock lock(mu_);
    const int finished = sqlite3_backup_finish(backup);
    if (code == SQLITE_DONE) code = finished;
  }
  const absl::Status status =
      code == SQLITE_OK ? absl::OkStatus() : SqliteError(copy, code, "copy to " + path);
  sqlite3_close(copy);
  return status;
}

absl::Status SqliteStore::LimitPagesForTest(uint32_t max_pages) {
  MutexLock lock(mu_);
  return SqliteExec(db_, fmt::format("PRAGMA max_page_count = {}", max_pages).c_str());
}

absl::Status SqliteStore::Undo(absl::Status error) {
  const int code = sqlite3_extended_errcode(db_);
  const bool rolled_back = sqlite3_get_autocommit(db_) != 0 || statements_->rollback.Run().ok();
  // After a failed fsync the kernel may have dropped the pages and would report success next time,
  // so trying again could lose data. Only a restart, which reads the file again, repairs it. A used
  // up quota is a full disk: the write was refused and nothing is lost.
  const bool over_quota = code == SQLITE_IOERR_WRITE && sqlite3_system_errno(db_) == EDQUOT;
  const bool is_disk_error =
      ((code & 0xff) == SQLITE_IOERR && !over_quota) || (code & 0xff) == SQLITE_CORRUPT;
  if (rolled_back && !is_disk_error) return error;
  LogError("the store failed: no more writes until a restart",
           {{"error", std::string(error.message())}});
  read_only_ = true;
  broken_ = absl::IsDataLoss(error)
                ? error
                : WithReason(
                      absl::UnavailableError(fmt::format("the store failed and needs a restart: {}",
                                                         std::string(error.message()))),
                      reason::kStoreReadOnly);
  return broken_;
}

absl::Status SqliteStore::CommitOne(const StoreWrite& write) {
  NERF_RETURN_IF_ERROR(Ran(statements_->begin.Run()));
  absl::Status status = WriteAll(write);
  if (status.ok()) status = CountCommit();
  if (status.ok()) status = Ran(statements_->commit.Run());
  if (!status.ok()) return Undo(std::move(status));
  CommitAcknowledged();
  return status;
}

absl::Status SqliteStore::CommitOneWithReserve(const StoreWrite& write) {
  NERF_RETURN_IF_ERROR(broken_);
  absl::Status status = CommitOne(write);
  if (IsFull(status) && broken_.ok() && write.MayUseReserve() && FreeReserve()) {
    status = CommitOne(write);
    read_only_ = true;  // what may not use the reserve would still be refused
    return status;
  }
  if (!status.ok()) {
    read_only_ = read_only_ || IsFull(status);
    return status;
  }
  // A write that may use the reserve can succeed while others still fail.
  if (!has_reserve_ && write.MayUseReserve()) return status;
  // Not after every commit: without room for a reserve, trying takes time.
  if (read_only_ || write.age.has_value()) TakeReserve();
  // A small write may find room in the log of a disk that is still full.
  if (read_only_) read_only_ = !HasRoom();
  return status;
}

bool SqliteStore::HasRoom() const {
  if (options_.reserve_bytes == 0) return true;
  std::error_code error;
  const fs::space_info space = fs::space(fs::absolute(path_).parent_path(), error);
  return has_reserve_ && (error || space.available >= options_.reserve_bytes);
}

absl::Status SqliteStore::CountCommit() {
  return Ran(statements_->set_meta.Bind("commits").Bind(std::to_string(n_commits_ + 1)).Run());
}

void SqliteStore::CommitAcknowledged() {
  ++n_commits_;
  WriteCommits();
}

void SqliteStore::WriteCommits() {
  // Not synced: after a power cut it may say fewer than there are, which hides nothing.
  const std::string line = fmt::format("{:20} {}\n", n_commits_, store_epoch_);
  const absl::Status written = WriteFully(commits_file_.get(), line, 0, "queue.db.commits");
  if (!written.ok()) LogWarning("commits are not counted", {{"error", written.ToString()}});
}

// A new epoch, so that watch tokens from before the loss are refused.
absl::Status SqliteStore::DrawEpoch(RandomSource& random) {
  store_epoch_ = NewUuid4(random);
  NERF_RETURN_IF_ERROR(DrawTokenSecret(random));
  return Ran(statements_->set_meta.Bind("store_epoch").Bind(store_epoch_).Run());
}

absl::Status SqliteStore::DrawTokenSecret(RandomSource& random) {
  std::array<uint8_t, 32> bytes;
  random.Fill(bytes);
  token_secret_ = absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  return Ran(statements_->set_meta.Bind("token_secret").Bind(token_secret_).Run());
}

absl::Status SqliteStore::CheckCommits(RandomSource& random) {
  MutexLock lock(mu_);
  NERF_RETURN_IF_ERROR(ForEachRow(
      db_, "SELECT key, value FROM meta WHERE key IN ('commits', 'store_epoch', 'token_secret')",
      [this](const SqliteStatement& row) {
        mu_.AssertHeld();
        if (row.Text(0) == "store_epoch") store_epoch_ = row.Text(1);
        if (row.Text(0) == "token_secret") token_secret_ = row.Text(1);
        if (row.Text(0) == "commits" && !absl::SimpleAtoi(row.Text(1), &n_commits_)) {
          return WithReason(absl::DataLossError("the store's count of commits is unreadable"),
                            reason::kStoreCorrupt);
        }
        return absl::OkStatus();
      }));
  constexpr size_t kSecretLength = 64;
  if (token_secret_.size() != kSecretLength) {
    // On a full disk it holds until the next start, which draws another.
    const absl::Status drawn = DrawTokenSecret(random);
    if (!drawn.ok() && !IsFull(drawn)) return drawn;
  }
  const std::string path = path_ + ".commits";
  constexpr uint64_t kMaxLength = 256;
  const absl::StatusOr<std::string> line = ReadFile(path, kMaxLength);
  uint64_t n_acknowledged = 0;
  std::vector<std::string> words;
  if (line.ok()) words = absl::StrSplit(*line, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  const bool readable = words.size() == 2 && absl::SimpleAtoi(words[0], &n_acknowledged);
  if (line.ok() && !readable) LogWarning("the count of commits is unreadable", {{"file", path}});
  const bool is_ours = readable && words[1] == store_epoch_;
  if (options_.new_epoch) NERF_RETURN_IF_ERROR(DrawEpoch(random));
  if (!options_.new_epoch && readable && (!is_ours || n_acknowledged > n_commits_)) {
    if (!options_.accept_data_loss) return MissingCommits(is_ours, n_commits_, n_acknowledged);
    LogWarning("starting without commits that were acknowledged",
               {{"commits", n_commits_}, {"acknowledged", n_acknowledged}});
    NERF_RETURN_IF_ERROR(DrawEpoch(random));
  }
  if (options_.in_memory) return absl::OkStatus();
  commits_file_ = UniqueFd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!commits_file_.ok()) return ErrnoToStatus(errno, "open " + path);
  WriteCommits();  // of this epoch from now on
  has_reserve_ = access((path_ + ".reserve").c_str(), F_OK) == 0;
  TakeReserve();
  return absl::OkStatus();
}

bool SqliteStore::FreeReserve() {
  if (!std::exchange(has_reserve_, false)) return false;
  LogWarning("the disk is full: the reserve is used for what ends or deletes something");
  return unlink((path_ + ".reserve").c_str()) == 0;
}

void SqliteStore::TakeReserve() {
  if (has_reserve_ || options_.reserve_bytes == 0) return;
  const std::string path = path_ + ".reserve";
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  has_reserve_ =
      fd.ok() && posix_fallocate(fd.get(), 0, static_cast<off_t>(options_.reserve_bytes)) == 0;
  if (!has_reserve_) unlink(path.c_str());  // half a reserve only takes space
}

absl::Status SqliteStore::CommitTogether(std::span<const StoreWrite* const> writes,
                                         std::vector<absl::Status>* statuses) {
  Statements& s = *statements_;
  NERF_RETURN_IF_ERROR(Ran(s.begin.Run()));
  absl::Status status;
  for (const StoreWrite* write : writes) {
    status = Ran(s.savepoint.Run());
    if (!status.ok()) break;
    absl::Status written = WriteAll(*write);
    if (!written.ok() && !IsOfTheWrite(written)) {
      status = std::move(written);
      break;
    }
    if (!written.ok()) status = Ran(s.undo_savepoint.Run());
    if (status.ok()) status = Ran(s.release_savepoint.Run());
    if (!status.ok()) break;
    statuses->push_back(std::move(written));
  }
  if (status.ok()) status = CountCommit();
  if (status.ok()) status = Ran(s.commit.Run());
  if (!status.ok()) return Undo(std::move(status));
  CommitAcknowledged();
  return status;
}

absl::Status SqliteStore::Commit(const StoreWrite& write) {
  MutexLock lock(mu_);
  return CommitOneWithReserve(write);
}

std::vector<absl::Status> SqliteStore::CommitAll(std::span<const StoreWrite* const> writes) {
  MutexLock lock(mu_);
  std::vector<absl::Status> statuses;
  // On a full disk one by one, because only some of them may use the reserve.
  if (broken_.ok() && writes.size() > 1 && !read_only_) {
    if (CommitTogether(writes, &statuses).ok()) return statuses;
    // Commit one by one: some writes may still succeed.
    statuses.clear();
  }
  for (const StoreWrite* write : writes) {
    statuses.push_back(CommitOneWithReserve(*write));
  }
  return statuses;
}

}  // namespace nerf
