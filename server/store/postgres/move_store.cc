#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_join.h"
#include "common/error_reason.h"
#include "common/files/file_io.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "server/store/postgres/pg_schema.h"
#include "server/store/postgres/pg_session.h"
#include "server/store/postgres/pg_statements.h"
#include "server/store/postgres/postgres_stores.h"
#include "server/store/sqlite_access_store.h"
#include "server/store/sqlite_store.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr size_t kRowsPerTrip = 1000;  // what is in memory twice

// Where the rows come from.
struct SqliteFiles {
  std::unique_ptr<SqliteStore> queue;
  std::unique_ptr<SqliteAccessStore> access;  // null: there is no access.db
};

absl::StatusOr<std::vector<StoreRow>> SourceRows(const SqliteFiles& files, const StoreTable& table,
                                                 bool of_access) {
  std::vector<StoreRow> rows;
  const VisitRow keep = [&](const StoreRow& row) {
    // SQLite's count of commits goes with its file.
    if (table.name != kMetaTable.name || row[0] != "commits") rows.push_back(row);
    return absl::OkStatus();
  };
  if (!of_access) {
    NERF_RETURN_IF_ERROR(files.queue->ReadRows(table, keep));
  } else if (files.access != nullptr) {
    NERF_RETURN_IF_ERROR(files.access->ReadRows(table, keep));
  }
  return rows;
}

absl::Status Insert(PgConnection& connection, const StoreTable& table,
                    const std::vector<StoreRow>& rows) {
  const PgStatement insert = InsertStatement(table, fmt::format("move_{}", table.name));
  const PgStatement* const statements[] = {&insert};
  NERF_RETURN_IF_ERROR(connection.Prepare(statements));
  for (size_t begin = 0; begin < rows.size(); begin += kRowsPerTrip) {
    std::vector<PgCommand> commands;
    for (size_t i = begin; i < std::min(rows.size(), begin + kRowsPerTrip); ++i) {
      commands.push_back({&insert, rows[i], /*must_change=*/true});
    }
    NERF_RETURN_IF_ERROR(connection.Run(commands).status);
  }
  return absl::OkStatus();
}

// The first difference between `rows` and the table; nullopt: there is none.
absl::StatusOr<std::optional<std::string>> Compare(PgConnection& connection,
                                                   const StoreTable& table,
                                                   const std::vector<StoreRow>& rows) {
  size_t n_read = 0;
  std::optional<std::string> difference;
  NERF_RETURN_IF_ERROR(connection.ForEachRow(SelectSql(table), {}, [&](const StoreRow& row) {
    const size_t at = n_read++;
    if (!difference.has_value() && (at >= rows.size() || rows[at] != row)) {
      difference = fmt::format("row {} of {} ({})", at + 1, table.name, row[0]);
    }
    return absl::OkStatus();
  }));
  if (!difference.has_value() && n_read != rows.size()) {
    difference = fmt::format("{} has {} rows, not {}", table.name, n_read, rows.size());
  }
  return difference;
}

// Whether a database holds no record. A start of nerfd makes none.
absl::StatusOr<bool> IsUnused(PgConnection& connection) {
  std::vector<std::string> sums;
  for (const auto& tables :
       {std::span<const StoreTable>(kQueueTables), std::span<const StoreTable>(kAccessTables)}) {
    for (const StoreTable& table : tables) {
      if (table.name == kMetaTable.name) continue;
      sums.push_back(fmt::format("(SELECT count(*) FROM {})", table.name));
    }
  }
  NERF_ASSIGN_OR_RETURN(const auto rows, connection.Query(fmt::format("SELECT ({})::text",
                                                                      absl::StrJoin(sums, " + "))));
  return rows[0][0] == "0";
}

// Inserts all rows, if there is none, and compares all. Returns how many there are.
absl::Status MoveRows(PgConnection& connection, const SqliteFiles& files, uint64_t* n_rows) {
  NERF_ASSIGN_OR_RETURN(const bool unused, IsUnused(connection));
  if (unused) NERF_RETURN_IF_ERROR(connection.Exec("DELETE FROM meta"));
  for (const bool of_access : {false, true}) {
    const auto tables =
        of_access ? std::span<const StoreTable>(kAccessTables) : std::span(kQueueTables);
    for (const StoreTable& table : tables) {
      NERF_ASSIGN_OR_RETURN(const auto rows, SourceRows(files, table, of_access));
      if (unused) NERF_RETURN_IF_ERROR(Insert(connection, table, rows));
      NERF_ASSIGN_OR_RETURN(const auto difference, Compare(connection, table, rows));
      *n_rows += rows.size();
      if (!difference.has_value()) continue;
      if (!unused) {
        return absl::FailedPreconditionError(fmt::format(
            "the {} is not empty, and its content is not that of queue.db: {} differs; move into "
            "an empty database",
            connection.place(), *difference));
      }
      return WithReason(
          absl::DataLossError(
              fmt::format("{} came back from PostgreSQL different; nothing is moved", *difference)),
          reason::kStoreCorrupt);
    }
  }
  return absl::OkStatus();
}

// Gives the files of a moved store another name, so that no nerfd begins with them again.
absl::Status Retire(const std::string& data_dir) {
  std::error_code error;
  for (const char* name : {"queue.db", "queue.db.commits", "access.db"}) {
    const std::string path = data_dir + "/" + name;
    if (fs::exists(path, error) && rename(path.c_str(), (path + ".moved").c_str()) != 0) {
      return ErrnoToStatus(errno, "rename " + path);
    }
  }
  fs::remove(data_dir + "/queue.db.reserve", error);
  return FsyncDirectory(data_dir);
}

absl::StatusOr<SqliteFiles> OpenFiles(const std::string& data_dir, RandomSource& random) {
  const std::string queue = data_dir + "/queue.db", access = data_dir + "/access.db";
  std::error_code error;
  if (!fs::exists(queue, error)) {
    return absl::FailedPreconditionError(
        fmt::format("{} does not exist: there is nothing to move", queue));
  }
  SqliteFiles files;
  NERF_ASSIGN_OR_RETURN(files.queue, SqliteStore::Open(queue, random));
  NERF_RETURN_IF_ERROR(files.queue->Load().status());  // damaged rows are not moved
  if (fs::exists(access, error)) {
    NERF_ASSIGN_OR_RETURN(files.access, SqliteAccessStore::Open(access));
    NERF_RETURN_IF_ERROR(files.access->Load().status());
  }
  return files;
}

}  // namespace

absl::StatusOr<uint64_t> MoveToPostgres(const std::string& data_dir, const std::string& uri,
                                        RandomSource& random) {
  std::error_code error;
  const std::string queue = data_dir + "/queue.db";
  if (!fs::exists(queue, error) && fs::exists(queue + ".moved", error)) {
    NERF_RETURN_IF_ERROR(Retire(data_dir));
    return absl::FailedPreconditionError(
        fmt::format("the queue of {} is moved already (queue.db.moved)", data_dir));
  }
  NERF_ASSIGN_OR_RETURN(SqliteFiles files, OpenFiles(data_dir, random));
  NERF_ASSIGN_OR_RETURN(const auto session,
                        PgSession::Open({.uri = uri, .lock_wait = absl::ZeroDuration()}, random));
  uint64_t n_rows = 0;
  NERF_RETURN_IF_ERROR(session->TransactOnce(
      [&](PgConnection& connection) { return MoveRows(connection, files, &n_rows); }));
  // Closed first, so that their logs are in the files.
  files.queue.reset();
  files.access.reset();
  NERF_RETURN_IF_ERROR(Retire(data_dir));
  return n_rows;
}

}  // namespace nerf
