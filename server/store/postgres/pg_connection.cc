#include "server/store/postgres/pg_connection.h"

#include <fmt/format.h>
#include <libpq-fe.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "common/error_reason.h"
#include "common/logging.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

constexpr int kMinVersion = 130000;

// Types of PostgreSQL's catalog (pg_type.h).
constexpr Oid kTextOid = 25, kInt8Oid = 20, kByteaOid = 17;
constexpr int kBinary = 1;

struct ResultDeleter {
  void operator()(PGresult* result) const { PQclear(result); }
};
using Result = std::unique_ptr<PGresult, ResultDeleter>;

std::string OneLine(const char* message) {
  std::string line(absl::StripAsciiWhitespace(message == nullptr ? "" : message));
  for (char& c : line) {
    if (c == '\n' || c == '\t') c = ' ';
  }
  return line;
}

void LogNotice(void*, const char* message) {
  LogInfo("PostgreSQL says", {{"notice", OneLine(message)}});
}

Oid OidOf(ColumnType type) {
  if (type == ColumnType::kNumber) return kInt8Oid;
  return type == ColumnType::kBytes ? kByteaOid : kTextOid;
}

std::string ValueOf(const PGresult* result, int row, int column) {
  return {PQgetvalue(result, row, column), static_cast<size_t>(PQgetlength(result, row, column))};
}

StoreRow RowOf(const PGresult* result, int row) {
  StoreRow values;
  for (int i = 0; i < PQnfields(result); ++i) values.push_back(ValueOf(result, row, i));
  return values;
}

absl::Status Unreachable(const std::string& message) {
  return WithReason(absl::UnavailableError("PostgreSQL: " + message), reason::kStoreReadOnly);
}

absl::Status ErrorOf(const PGresult* result) {
  const char* code = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const char* message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  const std::string text = OneLine(message != nullptr ? message : PQresultErrorMessage(result));
  return code == nullptr ? Unreachable(text) : PgError(code, text);  // without a code it is libpq's
}

// Values of a query as libpq takes them: bytes, and as text where the server converts.
struct Parameters {
  Parameters(const StoreRow& row, const std::vector<ColumnType>* column_types) {
    for (size_t i = 0; i < row.size(); ++i) {
      const ColumnType type = column_types == nullptr ? ColumnType::kText : (*column_types)[i];
      types.push_back(OidOf(type));
      values.push_back(row[i].c_str());
      lengths.push_back(static_cast<int>(row[i].size()));
      // Text in binary form, too: it has a length, so that a zero byte does not cut it.
      formats.push_back(type == ColumnType::kNumber ? 0 : kBinary);
    }
  }
  int size() const { return static_cast<int>(values.size()); }

  std::vector<Oid> types;
  std::vector<const char*> values;
  std::vector<int> lengths, formats;
};

}  // namespace

absl::Status PgError(const std::string& sqlstate, const std::string& message) {
  const std::string text = fmt::format("PostgreSQL: {} ({})", message, sqlstate);
  if (absl::StartsWith(sqlstate, "23")) {
    return WithReason(absl::AlreadyExistsError(text), reason::kAlreadyExists);
  }
  if (sqlstate == "XX001" || sqlstate == "XX002") {
    return WithReason(absl::DataLossError(text), reason::kStoreCorrupt);
  }
  // 08 connection, 25006 read-only, 40 deadlock, 53 no room, 55P03 lock, 57 shut down, 58 I/O.
  for (const char* kind : {"08", "25006", "40", "53", "55P03", "57", "58"}) {
    if (absl::StartsWith(sqlstate, kind)) {
      return WithReason(absl::UnavailableError(text), reason::kStoreReadOnly);
    }
  }
  return absl::InternalError(text);
}

absl::StatusOr<std::unique_ptr<PgConnection>> PgConnection::Open(const std::string& uri,
                                                                 const std::string& name) {
  // A later keyword wins: the URI over defaults, and what nerfd relies on over the URI.
  const std::pair<const char*, const char*> parameters[] = {
      {"connect_timeout", "5"},    {"keepalives_idle", "5"},          {"keepalives_interval", "2"},
      {"keepalives_count", "5"},   {"tcp_user_timeout", "20000"},     {"dbname", uri.c_str()},
      {"client_encoding", "UTF8"}, {"application_name", name.c_str()}};
  std::vector<const char*> keys, values;
  for (const auto& [key, value] : parameters) {
    keys.push_back(key);
    values.push_back(value);
  }
  keys.push_back(nullptr);
  values.push_back(nullptr);
  std::unique_ptr<PgConnection> opened(
      new PgConnection(PQconnectdbParams(keys.data(), values.data(), /*expand_dbname=*/1)));
  NERF_RETURN_IF_ERROR(opened->SetUp());
  return opened;
}

PgConnection::~PgConnection() { PQfinish(connection_); }

bool PgConnection::ok() const { return usable_ && PQstatus(connection_) == CONNECTION_OK; }

absl::Status PgConnection::Lost() const {
  return Unreachable(OneLine(PQerrorMessage(connection_)));
}

absl::Status PgConnection::Abandoned() {
  usable_ = false;
  return Lost();
}

absl::Status PgConnection::SetUp() {
  if (!ok()) return Lost();
  PQsetNoticeProcessor(connection_, LogNotice, nullptr);
  place_ = fmt::format("database {} at {}:{}", PQdb(connection_), PQhost(connection_),
                       PQport(connection_));
  if (PQserverVersion(connection_) < kMinVersion) {
    return absl::FailedPreconditionError(
        fmt::format("PostgreSQL has version {}; nerfd needs {} or newer",
                    PQserverVersion(connection_) / 10000, kMinVersion / 10000));
  }
  const char* encoding = PQparameterStatus(connection_, "server_encoding");
  if (encoding == nullptr || std::string_view(encoding) != "UTF8") {
    return absl::FailedPreconditionError(
        fmt::format("the {} has the encoding {}; create it with UTF8", place_,
                    encoding == nullptr ? "?" : encoding));
  }
  NERF_ASSIGN_OR_RETURN(const auto standby, Query("SELECT pg_is_in_recovery()::text"));
  if (standby[0][0] == "true") return Unreachable(place_ + " is a standby: it takes no writes");
  // A commit waits for the disk, and for synchronous standbys where there are some. The server
  // notices a dead nerfd in some 15 s; on a Unix socket these settings do nothing.
  return Exec(
      "SELECT set_config('synchronous_commit', 'on', false) "
      "WHERE current_setting('synchronous_commit') IN ('off', 'local');"
      "SET search_path = nerfd; SET standard_conforming_strings = on;"
      "SET default_transaction_isolation = 'read committed'; SET statement_timeout = 0;"
      "SET idle_in_transaction_session_timeout = 0; SET tcp_keepalives_idle = 5;"
      "SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 5;"
      "SET tcp_user_timeout = 15000");
}

absl::Status PgConnection::Check(pg_result* result) {
  if (result == nullptr) return Lost();
  switch (PQresultStatus(result)) {
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
    case PGRES_SINGLE_TUPLE:
      return absl::OkStatus();
    default:
      return ok() ? ErrorOf(result) : Lost();
  }
}

absl::StatusOr<std::vector<StoreRow>> PgConnection::Query(const std::string& sql,
                                                          const StoreRow& values) {
  std::vector<StoreRow> rows;
  NERF_RETURN_IF_ERROR(ForEachRow(sql, values, [&](const StoreRow& row) {
    rows.push_back(row);
    return absl::OkStatus();
  }));
  return rows;
}

absl::Status PgConnection::ForEachRow(const std::string& sql, const StoreRow& values,
                                      const VisitRow& visit) {
  const Parameters parameters(values, nullptr);
  if (PQsendQueryParams(connection_, sql.c_str(), parameters.size(), parameters.types.data(),
                        parameters.values.data(), parameters.lengths.data(),
                        parameters.formats.data(), kBinary) == 0) {
    return Lost();
  }
  PQsetSingleRowMode(connection_);
  absl::Status status;
  while (Result result{PQgetResult(connection_)}) {
    status.Update(Check(result.get()));
    for (int row = 0; row < PQntuples(result.get()) && status.ok(); ++row) {
      status.Update(visit(RowOf(result.get(), row)));
    }
  }
  if (status.ok() && !ok()) status = Lost();
  return status;
}

absl::Status PgConnection::Exec(const std::string& sql) {
  const Result result{PQexec(connection_, sql.c_str())};
  return Check(result.get());
}

absl::Status PgConnection::Commit() {
  const Result result{PQexec(connection_, "COMMIT")};
  NERF_RETURN_IF_ERROR(Check(result.get()));
  // COMMIT of a failed transaction succeeds as ROLLBACK.
  if (std::string_view(PQcmdStatus(result.get())) == "COMMIT") return absl::OkStatus();
  return absl::InternalError("PostgreSQL: the transaction was rolled back");
}

absl::Status PgConnection::Prepare(std::span<const PgStatement* const> statements) {
  if (PQenterPipelineMode(connection_) == 0) return Abandoned();
  for (const PgStatement* statement : statements) {
    std::vector<Oid> types;
    for (const ColumnType type : statement->types) types.push_back(OidOf(type));
    if (PQsendPrepare(connection_, statement->name.c_str(), statement->sql.c_str(),
                      static_cast<int>(types.size()), types.data()) == 0) {
      return Abandoned();
    }
  }
  return ReadPipeline({}, statements.size()).status;
}

bool PgConnection::Send(const PgCommand& command) {
  const Parameters parameters(command.values, &command.statement->types);
  return PQsendQueryPrepared(connection_, command.statement->name.c_str(), parameters.size(),
                             parameters.values.data(), parameters.lengths.data(),
                             parameters.formats.data(), kBinary) != 0;
}

PgRun PgConnection::Run(std::span<const PgCommand> commands) {
  if (PQenterPipelineMode(connection_) == 0) return {Abandoned()};
  for (const PgCommand& command : commands) {
    if (!Send(command)) return {Abandoned()};
  }
  return ReadPipeline(commands, commands.size());
}

PgRun PgConnection::ReadPipeline(std::span<const PgCommand> commands, size_t n) {
  if (PQpipelineSync(connection_) == 0) return {Abandoned()};
  PgRun run;
  for (size_t i = 0; i < n; ++i) {
    const Result result{PQgetResult(connection_)};
    if (run.status.ok()) {  // after an error the rest is only skipped
      run.status = Check(result.get());
      if (run.status.ok() && i < commands.size() && commands[i].must_change &&
          std::string_view(PQcmdTuples(result.get())) != "1") {
        run.status = absl::FailedPreconditionError("a row is not as expected");
      }
      if (run.status.ok()) ++run.n_done;
    }
    if (!ok()) return {Lost(), run.n_done};
    Result end{PQgetResult(connection_)};
    // A null result ends those of a query.
    if (end != nullptr) return {Abandoned(), run.n_done};
  }
  const Result sync{PQgetResult(connection_)};
  if (sync == nullptr || PQresultStatus(sync.get()) != PGRES_PIPELINE_SYNC) {
    run.status.Update(Abandoned());
  }
  if (PQexitPipelineMode(connection_) == 0) run.status.Update(Abandoned());
  return run;
}

}  // namespace nerf
