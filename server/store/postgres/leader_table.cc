#include "server/store/postgres/leader_table.h"

#include <fmt/format.h>

#include <utility>

#include "absl/strings/numbers.h"
#include "common/error_reason.h"
#include "common/status_macros.h"
#include "server/store/postgres/pg_connection.h"

namespace nerf {
namespace {

class PgLeaderTable final : public LeaderTable {
 public:
  explicit PgLeaderTable(std::unique_ptr<PgConnection> connection)
      : connection_(std::move(connection)) {}

  absl::StatusOr<LeaderRow> Read() override {
    NERF_ASSIGN_OR_RETURN(
        const auto table,
        connection_->Query("SELECT coalesce(to_regclass('nerfd.leader')::text, '')"));
    if (table[0][0].empty()) return LeaderRow{.is_free = true};  // no replica has led yet
    NERF_ASSIGN_OR_RETURN(const auto rows,
                          connection_->Query("SELECT term::text, grpc_address, web_address, "
                                             "(expires <= clock_timestamp())::text FROM leader"));
    LeaderRow row;
    if (rows.size() != 1 || !absl::SimpleAtoi(rows[0][0], &row.term)) {
      return WithReason(absl::DataLossError("the database has no row `leader`"),
                        reason::kStoreCorrupt);
    }
    row.grpc_address = rows[0][1];
    row.web_address = rows[0][2];
    row.is_free = rows[0][3] == "true";
    return row;
  }

  absl::StatusOr<bool> Renew(uint64_t term, absl::Duration lease) override {
    NERF_ASSIGN_OR_RETURN(
        const auto rows,
        connection_->Query(
            "UPDATE leader SET expires = clock_timestamp() + $2::interval "
            "WHERE term = $1::bigint AND holder <> '' RETURNING term::text",
            {std::to_string(term), fmt::format("{} ms", absl::ToInt64Milliseconds(lease))}));
    return !rows.empty();
  }

  absl::Status Resign(uint64_t term) override {
    return connection_
        ->Query("UPDATE leader SET expires = '-infinity' WHERE term = $1::bigint RETURNING ''",
                {std::to_string(term)})
        .status();
  }

 private:
  const std::unique_ptr<PgConnection> connection_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LeaderTable>> LeaderTable::Open(const std::string& uri) {
  NERF_ASSIGN_OR_RETURN(auto connection, PgConnection::Open(uri, "nerfd lease"));
  return std::make_unique<PgLeaderTable>(std::move(connection));
}

}  // namespace nerf
