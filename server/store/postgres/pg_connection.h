#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/store_rows.h"

struct pg_conn;
struct pg_result;

namespace nerf {

// A prepared statement and the types of its parameters.
struct PgStatement {
  std::string name;
  std::string sql;
  std::vector<ColumnType> types;
};

// One execution of a prepared statement.
struct PgCommand {
  const PgStatement* statement = nullptr;  // outlives it
  StoreRow values;
  bool must_change = false;  // fails unless it changes one row
};

// What Run returns.
struct PgRun {
  absl::Status status;
  size_t n_done = 0;  // the commands before the one that failed
};

// The status for an SQLSTATE with the server's message: AlreadyExists (class 23), Unavailable
// STORE_READ_ONLY (no room, read-only, I/O error, shutting down, deadlock), DataLoss STORE_CORRUPT
// (XX001, XX002), otherwise Internal.
absl::Status PgError(const std::string& sqlstate, const std::string& message);

// One connection to PostgreSQL. After an error, `ok` tells whether the server refused the call or
// the connection is lost. Not thread-safe.
class PgConnection {
 public:
  // Connects; `name` is the session's application_name. The session waits for the disk in each
  // commit, and a dead machine or server is noticed within some 20 s. Errors: Unavailable
  // STORE_READ_ONLY with libpq's message, FailedPrecondition (version, encoding).
  static absl::StatusOr<std::unique_ptr<PgConnection>> Open(const std::string& uri,
                                                            const std::string& name);
  ~PgConnection();
  PgConnection(const PgConnection&) = delete;
  PgConnection& operator=(const PgConnection&) = delete;

  bool ok() const;

  // Runs one statement. Its rows as bytes: numbers must be cast to text.
  absl::StatusOr<std::vector<StoreRow>> Query(const std::string& sql, const StoreRow& values = {});
  // As Query, row by row; the first error of `visit` is returned.
  absl::Status ForEachRow(const std::string& sql, const StoreRow& values, const VisitRow& visit);
  // Runs statements without parameters and rows.
  absl::Status Exec(const std::string& sql);
  // OK only if the server says that the transaction is committed.
  absl::Status Commit();

  absl::Status Prepare(std::span<const PgStatement* const> statements);
  // Runs the commands in one round trip, up to the first that fails.
  PgRun Run(std::span<const PgCommand> commands);

  // "database nerfd at host:5432"
  const std::string& place() const { return place_; }

 private:
  explicit PgConnection(pg_conn* connection) : connection_(connection) {}
  absl::Status SetUp();
  absl::Status Check(pg_result* result);
  absl::Status Lost() const;
  // As Lost, of a call that leaves the connection in no known state.
  absl::Status Abandoned();
  bool Send(const PgCommand& command);
  // Reads the results of n queries in a pipeline and its end.
  PgRun ReadPipeline(std::span<const PgCommand> commands, size_t n);

  pg_conn* const connection_;
  std::string place_;
  bool usable_ = true;
};

}  // namespace nerf
