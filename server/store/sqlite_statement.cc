#include "server/store/sqlite_statement.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <filesystem>
#include <utility>

#include "common/error_reason.h"
#include "common/status_macros.h"

namespace nerf {

absl::Status SqliteError(sqlite3* db, int code, std::string_view action) {
  const std::string message =
      fmt::format("store: {}: {} ({})", action,
                  db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(code), code);
  switch (code & 0xff) {
    case SQLITE_FULL:
    case SQLITE_READONLY:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_BUSY:
      return WithReason(absl::UnavailableError(message), reason::kStoreReadOnly);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return WithReason(absl::DataLossError(message), reason::kStoreCorrupt);
    case SQLITE_CONSTRAINT:
      return WithReason(absl::AlreadyExistsError(message), reason::kAlreadyExists);
    default:
      return absl::InternalError(message);
  }
}

absl::Status SqliteExec(sqlite3* db, const char* sql) {
  const int code = sqlite3_exec(db, sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : SqliteError(db, sqlite3_extended_errcode(db), sql);
}

absl::StatusOr<sqlite3*> OpenSqliteCopy(const std::string& path, std::string_view table) {
  // immutable: SQLite makes no files beside it, so it may lie on a read-only disk.
  std::string uri = "file://";
  for (const char c : std::filesystem::absolute(path).string()) {
    uri += c == '?' || c == '#' || c == '%' ? fmt::format("%{:02x}", c) : std::string(1, c);
  }
  uri += "?immutable=1";
  sqlite3 *file = nullptr, *copy = nullptr;
  int code = sqlite3_open_v2(uri.c_str(), &file,
                             SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nullptr);
  if (code == SQLITE_OK) {
    code = sqlite3_open_v2(":memory:", &copy, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  }
  if (code == SQLITE_OK) {
    sqlite3_backup* backup = sqlite3_backup_init(copy, "main", file, "main");
    if (backup != nullptr) sqlite3_backup_step(backup, -1);
    code = backup != nullptr ? sqlite3_backup_finish(backup) : sqlite3_errcode(copy);
  }
  absl::Status status =
      code == SQLITE_OK ? absl::OkStatus() : SqliteError(nullptr, code, "read the file");
  sqlite3_close(file);
  if (status.ok() && !SqliteStatement::Prepare(copy, fmt::format("SELECT 1 FROM {}", table)).ok()) {
    // SQLite takes an empty file for a new database.
    status = WithReason(absl::DataLossError(fmt::format("it has no table {}", table)),
                        reason::kStoreCorrupt);
  }
  if (status.ok()) return copy;
  sqlite3_close(copy);
  return status;
}

absl::StatusOr<SqliteStatement> SqliteStatement::Prepare(sqlite3* db, std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(db, sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return SqliteError(db, sqlite3_extended_errcode(db), sql);
  return SqliteStatement(db, statement);
}

SqliteStatement::~SqliteStatement() { sqlite3_finalize(statement_); }

SqliteStatement::SqliteStatement(SqliteStatement&& other) noexcept
    : db_(other.db_),
      statement_(std::exchange(other.statement_, nullptr)),
      n_bound_(other.n_bound_),
      bind_error_(other.bind_error_) {}

SqliteStatement& SqliteStatement::operator=(SqliteStatement&& other) noexcept {
  std::swap(db_, other.db_);
  std::swap(statement_, other.statement_);
  std::swap(n_bound_, other.n_bound_);
  std::swap(bind_error_, other.bind_error_);
  return *this;
}

void SqliteStatement::Check(int code) {
  if (code != SQLITE_OK && bind_error_ == SQLITE_OK) bind_error_ = code;
}

SqliteStatement& SqliteStatement::Bind(std::string_view text) {
  Check(sqlite3_bind_text64(statement_, ++n_bound_, text.data() != nullptr ? text.data() : "",
                            text.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
  return *this;
}

SqliteStatement& SqliteStatement::BindBlob(std::string_view bytes) {
  Check(sqlite3_bind_blob64(statement_, ++n_bound_, bytes.data() != nullptr ? bytes.data() : "",
                            bytes.size(), SQLITE_TRANSIENT));
  return *this;
}

SqliteStatement& SqliteStatement::Bind(uint64_t number) {
  return BindInt(static_cast<int64_t>(number));
}

SqliteStatement& SqliteStatement::BindInt(int64_t number) {
  Check(sqlite3_bind_int64(statement_, ++n_bound_, number));
  return *this;
}

SqliteStatement& SqliteStatement::BindRow(const StoreTable& table, const StoreRow& row) {
  for (size_t i = 0; i < table.columns.size(); ++i) {
    // SQLite turns the text of a number into one.
    table.columns[i].type == ColumnType::kBytes ? BindBlob(row[i]) : Bind(row[i]);
  }
  return *this;
}

absl::StatusOr<bool> SqliteStatement::Step() {
  if (bind_error_ != SQLITE_OK) {
    const int code = bind_error_;
    Reset();
    return SqliteError(db_, code, "bind");
  }
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    Reset();
    return false;
  }
  const absl::Status error = SqliteError(db_, sqlite3_extended_errcode(db_), "write");
  Reset();
  return error;
}

absl::StatusOr<int> SqliteStatement::Run() {
  while (true) {
    NERF_ASSIGN_OR_RETURN(const bool row, Step());
    if (!row) return sqlite3_changes(db_);
  }
}

std::string SqliteStatement::Text(int column) const {
  // The pointer first: asking for it may convert the value, which changes its size.
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  const int size = sqlite3_column_bytes(statement_, column);
  return bytes == nullptr ? std::string() : std::string(bytes, static_cast<size_t>(size));
}

uint64_t SqliteStatement::Number(int column) const {
  return static_cast<uint64_t>(sqlite3_column_int64(statement_, column));
}

StoreRow SqliteStatement::Row(const StoreTable& table) const {
  StoreRow row;
  for (size_t i = 0; i < table.columns.size(); ++i) row.push_back(Text(static_cast<int>(i)));
  return row;
}

void SqliteStatement::Reset() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  n_bound_ = 0;
  bind_error_ = SQLITE_OK;
}

absl::Status SqliteReadTable(sqlite3* db, const StoreTable& table, const VisitRow& visit) {
  NERF_ASSIGN_OR_RETURN(
      auto statement,
      SqliteStatement::Prepare(db, fmt::format("SELECT {} FROM {} ORDER BY {}", table.ColumnList(),
                                               table.name, table.order)));
  while (true) {
    NERF_ASSIGN_OR_RETURN(const bool found, statement.Step());
    if (!found) return absl::OkStatus();
    NERF_RETURN_IF_ERROR(visit(statement.Row(table)));
  }
}

}  // namespace nerf
