#pragma once

#include <memory>

#include "server/queue/state/job_store.h"
#include "server/store/postgres/pg_session.h"

namespace nerf {

// The queue's store in PostgreSQL, with the rows of SqliteStore. A batch of writes is one pipelined
// transaction. Where the server refuses one of them, each gets a transaction of its own.
// Thread-safe.
class PostgresStore final : public JobStore {
 public:
  explicit PostgresStore(std::shared_ptr<PgSession> session) : session_(std::move(session)) {}

  absl::StatusOr<StoredState> Load() override;
  absl::StatusOr<std::optional<Job>> LoadJob(const ResourceKey& job) override;
  absl::StatusOr<TrainingCurve> LoadCurve(const ResourceKey& job) override;
  absl::Status Commit(const StoreWrite& write) override;
  std::vector<absl::Status> CommitAll(std::span<const StoreWrite* const> writes) override;
  bool read_only() const override { return session_->read_only(); }

 private:
  // The row of a job in `table`, which WHERE selects by project ($1) and id ($2).
  absl::StatusOr<std::optional<StoreRow>> FindRow(const StoreTable& table, std::string_view where,
                                                  const ResourceKey& job);
  // What a job's row that was not as expected means.
  absl::Status StaleJob(const JobWrite& write);

  const std::shared_ptr<PgSession> session_;  // with PostgresAccessStore
};

}  // namespace nerf
