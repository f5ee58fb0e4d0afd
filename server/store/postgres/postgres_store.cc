#include "server/store/postgres/postgres_store.h"

#include <utility>

#include "common/error_reason.h"
#include "common/status_macros.h"
#include "server/store/postgres/pg_statements.h"

namespace nerf {

absl::StatusOr<StoredState> PostgresStore::Load() {
  StoredState stored;
  NERF_RETURN_IF_ERROR(session_->Read([&](PgConnection& connection) {
    NERF_ASSIGN_OR_RETURN(stored, ReadStoredState([&](const StoreTable& table, auto& visit) {
                            return connection.ForEachRow(SelectSql(table), {}, visit);
                          }));
    return absl::OkStatus();
  }));
  return stored;
}

absl::StatusOr<std::optional<StoreRow>> PostgresStore::FindRow(const StoreTable& table,
                                                               std::string_view where,
                                                               const ResourceKey& job) {
  std::vector<StoreRow> rows;
  NERF_RETURN_IF_ERROR(session_->ReadBeside([&](PgConnection& connection) {
    rows.clear();
    return connection.ForEachRow(SelectSql(table, where), {job.project, job.id},
                                 [&](const StoreRow& row) {
                                   rows.push_back(row);
                                   return absl::OkStatus();
                                 });
  }));
  return rows.empty() ? std::nullopt : std::optional(std::move(rows[0]));
}

absl::StatusOr<std::optional<Job>> PostgresStore::LoadJob(const ResourceKey& job) {
  NERF_ASSIGN_OR_RETURN(const auto row, FindRow(kJobTable, "project = $1 AND id = $2", job));
  return DecodeJobRow(row);
}

absl::StatusOr<TrainingCurve> PostgresStore::LoadCurve(const ResourceKey& job) {
  NERF_ASSIGN_OR_RETURN(const auto row, FindRow(kCurveTable, "project = $1 AND job = $2", job));
  return DecodeCurveRow(row);
}

absl::Status PostgresStore::StaleJob(const JobWrite& write) {
  const ResourceKey& key = write.job.key;
  std::string current = "none";
  NERF_RETURN_IF_ERROR(session_->Read([&](PgConnection& connection) {
    NERF_ASSIGN_OR_RETURN(const auto rows, connection.Query("SELECT lease_epoch::text FROM jobs "
                                                            "WHERE project = $1 AND id = $2",
                                                            {key.project, key.id}));
    if (!rows.empty()) current = rows[0][0];
    return absl::OkStatus();
  }));
  return StaleEpochError(write, current);
}

absl::Status PostgresStore::Commit(const StoreWrite& write) {
  std::vector<PgCommand> commands;
  AppendWrite(write, &commands);
  std::optional<PgRefusal> refusal = session_->Transact(std::move(commands));
  if (!refusal.has_value()) return absl::OkStatus();
  // The first commands are those of the jobs.
  if (absl::IsFailedPrecondition(refusal->status) && refusal->command.has_value() &&
      *refusal->command < write.jobs.size()) {
    return StaleJob(write.jobs[*refusal->command]);
  }
  return std::move(refusal->status);
}

std::vector<absl::Status> PostgresStore::CommitAll(std::span<const StoreWrite* const> writes) {
  if (writes.size() == 1) return {Commit(*writes[0])};
  std::vector<PgCommand> commands;
  for (const StoreWrite* write : writes) AppendWrite(*write, &commands);
  std::optional<PgRefusal> refusal = session_->Transact(std::move(commands));
  if (refusal.has_value() && refusal->command.has_value()) return JobStore::CommitAll(writes);
  return std::vector<absl::Status>(writes.size(),
                                   refusal.has_value() ? refusal->status : absl::OkStatus());
}

}  // namespace nerf
