#include "server/store/sqlite_access_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>

#include <cerrno>

#include "common/files/file_io.h"
#include "common/status_macros.h"
#include "server/store/sqlite_statement.h"

namespace nerf {
namespace {

constexpr uint64_t kVersion = 2;

constexpr char kSchema[] = R"sql(
  CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    display_name TEXT NOT NULL,
    role INTEGER NOT NULL,
    project TEXT NOT NULL,
    create_time INTEGER NOT NULL,
    expire_time INTEGER NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE worker_keys (
    worker TEXT PRIMARY KEY,
    digest TEXT NOT NULL) STRICT, WITHOUT ROWID;
)sql";

// From version 1: shares.
constexpr char kAddShares[] = R"sql(
  ALTER TABLE tokens ADD COLUMN resource TEXT NOT NULL DEFAULT '';
  ALTER TABLE tokens ADD COLUMN start BLOB NOT NULL DEFAULT x'';
)sql";

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteAccessStore>> SqliteAccessStore::Open(
    const std::string& path) {
  // Before SQLite makes it readable to the group.
  const UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.ok()) return ErrnoToStatus(errno, "open " + path);
  sqlite3* db = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE, nullptr);
  if (code != SQLITE_OK) {
    const absl::Status error = SqliteError(db, code, "open " + path);
    sqlite3_close(db);
    return error;
  }
  std::unique_ptr<SqliteAccessStore> store(new SqliteAccessStore(db));
  NERF_RETURN_IF_ERROR(store->Prepare());
  return store;
}

absl::Status SqliteAccessStore::Check(const std::string& path) {
  NERF_ASSIGN_OR_RETURN(sqlite3* const db, OpenSqliteCopy(path, "tokens"));
  SqliteAccessStore store(db);
  NERF_RETURN_IF_ERROR(store.Prepare());
  return store.Load().status();
}

SqliteAccessStore::~SqliteAccessStore() {
  MutexLock lock(mu_);
  sqlite3_close(db_);
}

absl::Status SqliteAccessStore::Prepare() {
  MutexLock lock(mu_);
  // As with queue.db: a crafted file can do no more than hold wrong data.
  sqlite3_db_config(db_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  NERF_RETURN_IF_ERROR(SqliteExec(db_, "PRAGMA locking_mode = EXCLUSIVE"));
  NERF_RETURN_IF_ERROR(SqliteExec(db_, "PRAGMA journal_mode = DELETE"));
  NERF_RETURN_IF_ERROR(SqliteExec(db_, "PRAGMA synchronous = EXTRA"));
  uint64_t version = 0;
  {
    NERF_ASSIGN_OR_RETURN(auto statement, SqliteStatement::Prepare(db_, "PRAGMA user_version"));
    NERF_ASSIGN_OR_RETURN(const bool row, statement.Step());
    if (row) version = statement.Number(0);
  }
  if (version == kVersion) return absl::OkStatus();
  if (version > kVersion) {
    return absl::FailedPreconditionError(
        fmt::format("access.db has schema version {}, this program knows up to {}: run a newer one",
                    version, kVersion));
  }
  return SqliteExec(db_, fmt::format("BEGIN IMMEDIATE; {} {} PRAGMA user_version = {}; COMMIT",
                                     version == 0 ? kSchema : "", kAddShares, kVersion)
                             .c_str());
}

absl::Status SqliteAccessStore::CopyTo(const std::string& path) {
  // VACUUM INTO takes an empty file.
  const UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.ok()) return ErrnoToStatus(errno, "create " + path);
  MutexLock lock(mu_);
  NERF_ASSIGN_OR_RETURN(auto copy, SqliteStatement::Prepare(db_, "VACUUM INTO ?"));
  return copy.Bind(path).Run().status();
}

absl::StatusOr<StoredAccess> SqliteAccessStore::Load() {
  return ReadStoredAccess(
      [this](const auto& table, auto& visit) { return ReadRows(table, visit); });
}

absl::Status SqliteAccessStore::ReadRows(const StoreTable& table, const VisitRow& visit) {
  MutexLock lock(mu_);
  return SqliteReadTable(db_, table, visit);
}

absl::Status SqliteAccessStore::AddToken(const TokenRecord& token) {
  MutexLock lock(mu_);
  NERF_ASSIGN_OR_RETURN(auto insert,
                        SqliteStatement::Prepare(db_, fmt::format("INSERT INTO tokens ({}) VALUES "
                                                                  "(?, ?, ?, ?, ?, ?, ?, ?, ?)",
                                                                  kTokenTable.ColumnList())));
  return insert.BindRow(kTokenTable, EncodeTokenRow(token)).Run().status();
}

absl::Status SqliteAccessStore::DeleteToken(const std::string& id) {
  MutexLock lock(mu_);
  NERF_ASSIGN_OR_RETURN(auto erase,
                        SqliteStatement::Prepare(db_, "DELETE FROM tokens WHERE id = ?"));
  return erase.Bind(id).Run().status();
}

absl::Status SqliteAccessStore::PutWorkerKey(const WorkerKeyRecord& key) {
  MutexLock lock(mu_);
  NERF_ASSIGN_OR_RETURN(
      auto put, SqliteStatement::Prepare(db_, "INSERT OR REPLACE INTO worker_keys VALUES (?, ?)"));
  return put.Bind(key.worker).Bind(key.digest).Run().status();
}

absl::Status SqliteAccessStore::DeleteWorkerKey(const std::string& worker) {
  MutexLock lock(mu_);
  NERF_ASSIGN_OR_RETURN(auto erase,
                        SqliteStatement::Prepare(db_, "DELETE FROM worker_keys WHERE worker = ?"));
  return erase.Bind(worker).Run().status();
}

}  // namespace nerf
