#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/store_rows.h"

struct sqlite3;
struct sqlite3_stmt;

namespace nerf {

// The status for a result code of SQLite, with its error message: Unavailable STORE_READ_ONLY
// (disk full, read-only, I/O error, busy), DataLoss STORE_CORRUPT (damaged, not a database),
// AlreadyExists (constraint), otherwise Internal.
absl::Status SqliteError(sqlite3* db, int code, std::string_view action);

// Runs statements without parameters or rows.
absl::Status SqliteExec(sqlite3* db, const char* sql);

// A copy in memory of a database file, which is only read, without its log. The caller closes it.
// DataLoss STORE_CORRUPT when it is damaged or does not have this table.
absl::StatusOr<sqlite3*> OpenSqliteCopy(const std::string& path, std::string_view table);

// One prepared statement. Bind in order, then Run or Step through the rows; at the end it is ready
// to be bound again. Not thread-safe: guarded by the connection's lock.
class SqliteStatement {
 public:
  static absl::StatusOr<SqliteStatement> Prepare(sqlite3* db, std::string_view sql);
  SqliteStatement() = default;
  ~SqliteStatement();
  SqliteStatement(SqliteStatement&& other) noexcept;
  SqliteStatement& operator=(SqliteStatement&& other) noexcept;

  SqliteStatement& Bind(std::string_view text);
  SqliteStatement& BindBlob(std::string_view bytes);
  SqliteStatement& Bind(uint64_t number);
  SqliteStatement& BindInt(int64_t number);
  SqliteStatement& BindRow(const StoreTable& table, const StoreRow& row);

  // Runs to the end. Returns the number of changed rows.
  absl::StatusOr<int> Run();
  // The next row: true, or false at the end.
  absl::StatusOr<bool> Step();
  std::string Text(int column) const;
  uint64_t Number(int column) const;
  // The current row of a query for all columns of a table.
  StoreRow Row(const StoreTable& table) const;

  void Reset();

 private:
  SqliteStatement(sqlite3* db, sqlite3_stmt* statement) : db_(db), statement_(statement) {}
  void Check(int code);

  sqlite3* db_ = nullptr;
  sqlite3_stmt* statement_ = nullptr;
  int n_bound_ = 0;
  int bind_error_ = 0;
};

// Calls `visit` for every row of a table in its order (ReadTable).
absl::Status SqliteReadTable(sqlite3* db, const StoreTable& table, const VisitRow& visit);

}  // namespace nerf
