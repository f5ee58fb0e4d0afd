#include "common/error_reason.h"
#include "server/store/postgres/leader_table.h"
#include "server/store/postgres/postgres_stores.h"

// A program without libpq (NERF_ENABLE_POSTGRES=OFF).
namespace nerf {
namespace {

absl::Status NotBuilt() {
  return WithReason(absl::UnimplementedError("this nerfd was built without PostgreSQL"),
                    reason::kFeatureNotBuilt);
}

}  // namespace

absl::Status CheckPostgresUri(const std::string&) { return NotBuilt(); }

absl::StatusOr<PostgresStores> OpenPostgresStores(const PostgresOptions&, RandomSource&) {
  return NotBuilt();
}

absl::StatusOr<std::unique_ptr<LeaderTable>> LeaderTable::Open(const std::string&) {
  return NotBuilt();
}

absl::StatusOr<uint64_t> MoveToPostgres(const std::string&, const std::string&, RandomSource&) {
  return NotBuilt();
}

}  // namespace nerf
