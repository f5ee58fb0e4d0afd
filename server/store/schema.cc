#include "server/store/schema.h"

#include <fmt/format.h>

#include "common/status_macros.h"
#include "server/store/sqlite_statement.h"

namespace nerf {
namespace {

// Columns hold what SQL compares or sorts; the body (proto/nerf/internal/store.proto) holds the
// rest of a record.
constexpr char kQueueSchema[] = R"sql(
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE jobs (
      project TEXT NOT NULL,
      id TEXT NOT NULL,
      create_sequence INTEGER NOT NULL UNIQUE,
      state TEXT NOT NULL,
      lease_worker TEXT NOT NULL,
      lease_epoch INTEGER NOT NULL,
      body BLOB NOT NULL,
      PRIMARY KEY (project, id)) STRICT, WITHOUT ROWID;
    CREATE TABLE job_events (
      project TEXT NOT NULL,
      job TEXT NOT NULL,
      sequence INTEGER NOT NULL,
      kind TEXT NOT NULL,
      body BLOB NOT NULL,
      PRIMARY KEY (project, job, sequence)) STRICT, WITHOUT ROWID;
    CREATE TABLE scenes (
      project TEXT NOT NULL,
      id TEXT NOT NULL,
      create_sequence INTEGER NOT NULL UNIQUE,
      body BLOB NOT NULL,
      PRIMARY KEY (project, id)) STRICT, WITHOUT ROWID;
    CREATE TABLE models (
      project TEXT NOT NULL,
      id TEXT NOT NULL,
      create_sequence INTEGER NOT NULL UNIQUE,
      body BLOB NOT NULL,
      PRIMARY KEY (project, id)) STRICT, WITHOUT ROWID;
    CREATE TABLE requests (
      project TEXT NOT NULL,
      request_id TEXT NOT NULL,
      kind INTEGER NOT NULL,
      resource_id TEXT NOT NULL,
      fingerprint TEXT NOT NULL,
      create_time INTEGER NOT NULL,
      PRIMARY KEY (project, request_id)) STRICT, WITHOUT ROWID;
    CREATE TABLE job_curves (
      project TEXT NOT NULL,
      job TEXT NOT NULL,
      body BLOB NOT NULL,
      PRIMARY KEY (project, job)) STRICT, WITHOUT ROWID;
    CREATE TABLE projects (
      project TEXT PRIMARY KEY,
      body BLOB NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE drained_workers (worker TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
    CREATE TABLE uploads (
      project TEXT NOT NULL,
      sha256 TEXT NOT NULL,
      byte_size INTEGER NOT NULL,
      time INTEGER NOT NULL,
      PRIMARY KEY (project, sha256)) STRICT, WITHOUT ROWID;
    )sql";

absl::StatusOr<int> ReadVersion(sqlite3* db) {
  NERF_ASSIGN_OR_RETURN(auto statement, SqliteStatement::Prepare(db, "PRAGMA user_version"));
  NERF_ASSIGN_OR_RETURN(const auto row, statement.Step());
  return row ? static_cast<int>(statement.Number(0)) : 0;
}

absl::Status Create(sqlite3* db, RandomSource& random) {
  NERF_RETURN_IF_ERROR(SqliteExec(db, kQueueSchema));
  NERF_ASSIGN_OR_RETURN(
      auto insert,
      SqliteStatement::Prepare(db, "INSERT INTO meta (key, value) VALUES ('store_epoch', ?)"));
  NERF_RETURN_IF_ERROR(insert.Bind(NewUuid4(random)).Run().status());
  return SqliteExec(db, fmt::format("PRAGMA user_version = {}", kSchemaVersion).c_str());
}

}  // namespace

absl::Status WrongSchemaVersion(std::string_view place, int version, int supported) {
  return absl::FailedPreconditionError(
      fmt::format("the {} has schema version {}, this program reads version {} alone: {}", place,
                  version, supported,
                  version > supported ? "run a newer one"
                                      : "run the one that made it, or begin with an empty store"));
}

absl::Status OpenSchema(sqlite3* db, RandomSource& random) {
  NERF_ASSIGN_OR_RETURN(const int version, ReadVersion(db));
  if (version == kSchemaVersion) return absl::OkStatus();
  if (version != 0) return WrongSchemaVersion("store", version, kSchemaVersion);
  NERF_RETURN_IF_ERROR(SqliteExec(db, "BEGIN IMMEDIATE"));
  absl::Status status = Create(db, random);
  if (status.ok()) status = SqliteExec(db, "COMMIT");
  if (!status.ok()) (void)SqliteExec(db, "ROLLBACK");
  return status;
}

}  // namespace nerf
