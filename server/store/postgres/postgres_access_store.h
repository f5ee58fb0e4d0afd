#pragma once

#include <memory>
#include <string>
#include <utility>

#include "server/access/access_store.h"
#include "server/store/postgres/pg_session.h"

namespace nerf {

// Tokens, shares and workers' keys in the database of the queue, on its connection. Thread-safe.
class PostgresAccessStore final : public AccessStore {
 public:
  explicit PostgresAccessStore(std::shared_ptr<PgSession> session) : session_(std::move(session)) {}

  absl::StatusOr<StoredAccess> Load() override;
  absl::Status AddToken(const TokenRecord& token) override;
  absl::Status DeleteToken(const std::string& id) override;
  absl::Status PutWorkerKey(const WorkerKeyRecord& key) override;
  absl::Status DeleteWorkerKey(const std::string& worker) override;

 private:
  absl::Status Run(const PgStatement& statement, StoreRow values);

  const std::shared_ptr<PgSession> session_;  // with PostgresStore
};

}  // namespace nerf
