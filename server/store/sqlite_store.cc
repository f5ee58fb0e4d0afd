#include "server/store/sqlite_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/numbers.h"
#include "common/error_reason.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "server/queue/resources/token_sealer.h"
#include "server/store/schema.h"
#include "server/store/sqlite_statement.h"

namespace nerf {

namespace fs = std::filesystem;

struct SqliteStore::Statements {
  SqliteStatement begin, commit, rollback;
  SqliteStatement savepoint, undo_savepoint, release_savepoint;
  SqliteStatement insert_job, update_job, delete_job, job_epoch, job_of;
  SqliteStatement insert_event, trim_events;
  SqliteStatement insert_curve, delete_curve, curve_of;
  SqliteStatement insert_scene, delete_scene, put_model, delete_model;
  SqliteStatement insert_request, forget_requests, set_meta;
  SqliteStatement forget_requests_of, put_project, drain_worker, undrain_worker;
  SqliteStatement put_upload, delete_upload;
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

// Writes the log's own bytes over it and syncs it. The pages of a log whose sync failed in an
// earlier process may be in memory and not on disk; a sync alone would not write them again.
// Requires: the lock of the file is held.
absl::Status RewriteLog(sqlite3* db) {
  const std::string path = sqlite3_filename_wal(sqlite3_db_filename(db, "main"));
  const UniqueFd file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file.ok()) return errno == ENOENT ? absl::OkStatus() : ErrnoToStatus(errno, "open " + path);
  std::string bytes(size_t{1} << 18, '\0');
  for (uint64_t offset = 0;;) {
    const ssize_t n = pread(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoToStatus(errno, "read " + path);
    if (n == 0) break;
    const std::string_view part(bytes.data(), static_cast<size_t>(n));
    NERF_RETURN_IF_ERROR(WriteFully(file.get(), part, offset, path));
    offset += part.size();
  }
  if (fsync(file.get()) != 0) return ErrnoToStatus(errno, "fsync " + path);
  return absl::OkStatus();
}

// Writes what the log holds into the file and syncs both.
absl::Status WriteAnew(sqlite3* db) {
  const absl::Status written = SqliteExec(db, "PRAGMA wal_checkpoint(TRUNCATE)");
  if (!IsFull(written)) return written;
  LogWarning("the disk is full: the store's log is not written into its file");
  return absl::OkStatus();
}

std::string InsertSql(std::string_view verb, const StoreTable& table) {
  std::string marks = "?";
  for (size_t i = 1; i < table.columns.size(); ++i) marks += ", ?";
  return fmt::format("{} INTO {} ({}) VALUES ({})", verb, table.name, table.ColumnList(), marks);
}

}  // namespace

SqliteStore::SqliteStore(sqlite3* db, std::string path, const SqliteStoreOptions& options)
    : path_(std::move(path)),
      options_(options),
      commit_count_(path_ + ".commits", "queue.db"),
      db_(db) {}

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
  sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  if (status.ok()) status = SqliteExec(db, "PRAGMA journal_mode = WAL");
  if (status.ok()) status = SqliteExec(db, "PRAGMA synchronous = FULL");
  if (status.ok()) status = SqliteExec(db, "BEGIN IMMEDIATE; COMMIT");  // takes the lock now
  // Before anything reads or checkpoints the log, as closing does: else a power cut could leave its
  // pages in queue.db beside an older log.
  if (status.ok() && !options.in_memory) status = RewriteLog(db);
  if (status.ok()) sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
  if (status.ok()) status = IntegrityCheck(db);
  if (status.ok()) status = OpenSchema(db, random);
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
  Statements& s = *statements_;
  constexpr char kInsert[] = "INSERT", kReplace[] = "INSERT OR REPLACE";
  const std::pair<SqliteStatement*, std::string> all[] = {
      {&s.begin, "BEGIN IMMEDIATE"},
      {&s.commit, "COMMIT"},
      {&s.rollback, "ROLLBACK"},
      {&s.savepoint, "SAVEPOINT one_write"},
      {&s.undo_savepoint, "ROLLBACK TO one_write"},
      {&s.release_savepoint, "RELEASE one_write"},
      {&s.insert_job, InsertSql(kInsert, kJobTable)},
      // Of a job's row (?3 does not change) and the expected epoch.
      {&s.update_job,
       "UPDATE jobs SET state = ?4, lease_worker = ?5, lease_epoch = ?6, body = ?7 "
       "WHERE project = ?1 AND id = ?2 AND lease_epoch = ?8"},
      {&s.delete_job, "DELETE FROM jobs WHERE project = ? AND id = ?"},
      {&s.job_epoch, "SELECT lease_epoch FROM jobs WHERE project = ? AND id = ?"},
      {&s.job_of,
       fmt::format("SELECT {} FROM jobs WHERE project = ? AND id = ?", kJobTable.ColumnList())},
      {&s.insert_event, InsertSql(kInsert, kEventTable)},
      {&s.trim_events, "DELETE FROM job_events WHERE project = ? AND job = ? AND sequence <= ?"},
      {&s.insert_curve, InsertSql(kReplace, kCurveTable)},
      {&s.delete_curve, "DELETE FROM job_curves WHERE project = ? AND job = ?"},
      {&s.curve_of, "SELECT project, job, body FROM job_curves WHERE project = ? AND job = ?"},
      {&s.insert_scene, InsertSql(kInsert, kSceneTable)},
      {&s.delete_scene, "DELETE FROM scenes WHERE project = ? AND id = ?"},
      {&s.put_model, InsertSql(kReplace, kModelTable)},
      {&s.delete_model, "DELETE FROM models WHERE project = ? AND id = ?"},
      {&s.insert_request, InsertSql(kReplace, kRequestTable)},
      {&s.set_meta, InsertSql(kReplace, kMetaTable)},
      {&s.forget_requests, "DELETE FROM requests WHERE create_time < ?"},
      {&s.forget_requests_of, "DELETE FROM requests WHERE project = ? AND create_time < ?"},
      {&s.put_project, InsertSql(kReplace, kProjectTable)},
      {&s.drain_worker, InsertSql(kReplace, kDrainedTable)},
      {&s.undrain_worker, "DELETE FROM drained_workers WHERE worker = ?"},
      {&s.put_upload, InsertSql(kReplace, kUploadTable)},
      {&s.delete_upload, "DELETE FROM uploads WHERE project = ? AND sha256 = ?"},
  };
  for (const auto& [statement, sql] : all) {
    NERF_ASSIGN_OR_RETURN(auto prepared, SqliteStatement::Prepare(db_, sql));
    *statement = std::move(prepared);
  }
  return absl::OkStatus();
}

absl::Status SqliteStore::ReadRows(const StoreTable& table, const VisitRow& visit) {
  MutexLock lock(mu_);
  return SqliteReadTable(db_, table, visit);
}

absl::StatusOr<StoredState> SqliteStore::Load() {
  MutexLock lock(mu_);
  NERF_ASSIGN_OR_RETURN(StoredState stored, ReadStoredState([this](const auto& table, auto& visit) {
                          mu_.AssertHeld();
                          return SqliteReadTable(db_, table, visit);
                        }));
  stored.token_secret = token_secret_;  // on a full disk it is not in the file
  return stored;
}

absl::StatusOr<std::optional<StoreRow>> SqliteStore::FindRow(SqliteStatement& query,
                                                             const StoreTable& table,
                                                             const ResourceKey& job) {
  NERF_ASSIGN_OR_RETURN(const auto found, query.Bind(job.project).Bind(job.id).Step());
  std::optional<StoreRow> row;
  if (found) row = query.Row(table);
  query.Reset();
  return row;
}

absl::StatusOr<std::optional<Job>> SqliteStore::LoadJob(const ResourceKey& job) {
  std::optional<StoreRow> row;
  {
    MutexLock lock(mu_);
    NERF_ASSIGN_OR_RETURN(row, FindRow(statements_->job_of, kJobTable, job));
  }
  return DecodeJobRow(row);
}

absl::StatusOr<TrainingCurve> SqliteStore::LoadCurve(const ResourceKey& job) {
  MutexLock lock(mu_);
  NERF_ASSIGN_OR_RETURN(const auto row, FindRow(statements_->curve_of, kCurveTable, job));
  return DecodeCurveRow(row);
}

absl::Status SqliteStore::WriteJob(const JobWrite& write) {
  const Job& job = write.job;
  const bool is_new = !write.expected_epoch.has_value();
  SqliteStatement& statement = is_new ? statements_->insert_job : statements_->update_job;
  statement.BindRow(kJobTable, EncodeJobRow(job));
  if (!is_new) statement.Bind(*write.expected_epoch);
  NERF_ASSIGN_OR_RETURN(const int changes, statement.Run());
  if (changes == 1) return absl::OkStatus();

  SqliteStatement& query = statements_->job_epoch;
  NERF_ASSIGN_OR_RETURN(const auto row, query.Bind(job.key.project).Bind(job.key.id).Step());
  const std::string current = row ? std::to_string(query.Number(0)) : "none";
  query.Reset();
  return StaleEpochError(write, current);
}

absl::Status SqliteStore::WriteAll(const StoreWrite& write) {
  Statements& s = *statements_;
  for (const JobWrite& job : write.jobs) NERF_RETURN_IF_ERROR(WriteJob(job));
  for (const auto& [key, event] : write.events) {
    NERF_RETURN_IF_ERROR(
        Ran(s.insert_event.BindRow(kEventTable, EncodeEventRow(key, event)).Run()));
  }
  for (const auto& [key, sequence] : write.trimmed_events) {
    NERF_RETURN_IF_ERROR(Ran(s.trim_events.Bind(key.project).Bind(key.id).Bind(sequence).Run()));
  }
  for (const auto& [key, curve] : write.curves) {
    NERF_RETURN_IF_ERROR(
        Ran(s.insert_curve.BindRow(kCurveTable, EncodeCurveRow(key, curve)).Run()));
  }
  for (const ResourceKey& key : write.deleted_jobs) {
    NERF_RETURN_IF_ERROR(Ran(s.delete_job.Bind(key.project).Bind(key.id).Run()));
    NERF_RETURN_IF_ERROR(Ran(s.delete_curve.Bind(key.project).Bind(key.id).Run()));
  }
  for (const SceneRecord& scene : write.new_scenes) {
    NERF_RETURN_IF_ERROR(Ran(s.insert_scene.BindRow(kSceneTable, EncodeSceneRow(scene)).Run()));
  }
  for (const ResourceKey& key : write.deleted_scenes) {
    NERF_RETURN_IF_ERROR(Ran(s.delete_scene.Bind(key.project).Bind(key.id).Run()));
  }
  for (const ModelRecord& model : write.models) {
    NERF_RETURN_IF_ERROR(Ran(s.put_model.BindRow(kModelTable, EncodeModelRow(model)).Run()));
  }
  for (const ResourceKey& key : write.deleted_models) {
    NERF_RETURN_IF_ERROR(Ran(s.delete_model.Bind(key.project).Bind(key.id).Run()));
  }
  for (const RequestRecord& request : write.new_requests) {
    NERF_RETURN_IF_ERROR(
        Ran(s.insert_request.BindRow(kRequestTable, EncodeRequestRow(request)).Run()));
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
    NERF_RETURN_IF_ERROR(
        Ran(s.put_project.BindRow(kProjectTable, EncodeProjectRow(project)).Run()));
  }
  for (const auto& [worker, drained] : write.drained_workers) {
    NERF_RETURN_IF_ERROR(Ran((drained ? s.drain_worker : s.undrain_worker).Bind(worker).Run()));
  }
  for (const UploadRecord& upload : write.uploads) {
    NERF_RETURN_IF_ERROR(Ran(s.put_upload.BindRow(kUploadTable, EncodeUploadRow(upload)).Run()));
  }
  for (const auto& [project, sha256] : write.deleted_uploads) {
    NERF_RETURN_IF_ERROR(Ran(s.delete_upload.Bind(project).Bind(sha256).Run()));
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

void SqliteStore::CommitAcknowledged() { commit_count_.Set(++n_commits_); }

// A new epoch, so that watch tokens from before the loss are refused.
absl::Status SqliteStore::DrawEpoch(RandomSource& random) {
  store_epoch_ = NewUuid4(random);
  NERF_RETURN_IF_ERROR(DrawSecret(random));
  return Ran(statements_->set_meta.Bind("store_epoch").Bind(store_epoch_).Run());
}

absl::Status SqliteStore::DrawSecret(RandomSource& random) {
  token_secret_ = DrawTokenSecret(random);
  return Ran(statements_->set_meta.Bind("token_secret").Bind(token_secret_).Run());
}

absl::Status SqliteStore::CheckCommits(RandomSource& random) {
  MutexLock lock(mu_);
  NERF_RETURN_IF_ERROR(SqliteReadTable(db_, kMetaTable, [this](const StoreRow& row) {
    mu_.AssertHeld();
    if (row[0] == "store_epoch") store_epoch_ = row[1];
    if (row[0] == "token_secret") token_secret_ = row[1];
    if (row[0] == "commits" && !absl::SimpleAtoi(row[1], &n_commits_)) {
      return WithReason(absl::DataLossError("the store's count of commits is unreadable"),
                        reason::kStoreCorrupt);
    }
    return absl::OkStatus();
  }));
  constexpr size_t kSecretLength = 64;
  if (token_secret_.size() != kSecretLength) {
    // On a full disk it holds until the next start, which draws another.
    const absl::Status drawn = DrawSecret(random);
    if (!drawn.ok() && !IsFull(drawn)) return drawn;
  }
  absl::Status missing;
  if (!options_.new_epoch) missing = commit_count_.Check(store_epoch_, n_commits_);
  if (!missing.ok() && !options_.accept_data_loss) return missing;
  if (!missing.ok()) {
    LogWarning("starting without commits that were acknowledged",
               {{"error", std::string(missing.message())}});
  }
  if (options_.new_epoch || !missing.ok()) NERF_RETURN_IF_ERROR(DrawEpoch(random));
  if (options_.in_memory) return absl::OkStatus();
  NERF_RETURN_IF_ERROR(commit_count_.Begin(store_epoch_, n_commits_));
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
