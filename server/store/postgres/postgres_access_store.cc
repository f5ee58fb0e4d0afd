#include "server/store/postgres/postgres_access_store.h"

#include "common/status_macros.h"
#include "server/store/postgres/pg_statements.h"

namespace nerf {

absl::StatusOr<StoredAccess> PostgresAccessStore::Load() {
  StoredAccess stored;
  NERF_RETURN_IF_ERROR(session_->Read([&](PgConnection& connection) {
    NERF_ASSIGN_OR_RETURN(stored, ReadStoredAccess([&](const StoreTable& table, auto& visit) {
                            return connection.ForEachRow(SelectSql(table), {}, visit);
                          }));
    return absl::OkStatus();
  }));
  return stored;
}

absl::Status PostgresAccessStore::Run(const PgStatement& statement, StoreRow values) {
  const std::optional<PgRefusal> refusal =
      session_->Transact({PgCommand{&statement, std::move(values)}});
  return refusal.has_value() ? refusal->status : absl::OkStatus();
}

absl::Status PostgresAccessStore::AddToken(const TokenRecord& token) {
  return Run(Statements().insert_token, EncodeTokenRow(token));
}

absl::Status PostgresAccessStore::DeleteToken(const std::string& id) {
  return Run(Statements().delete_token, {id});
}

absl::Status PostgresAccessStore::PutWorkerKey(const WorkerKeyRecord& key) {
  return Run(Statements().put_worker_key, {key.worker, key.digest});
}

absl::Status PostgresAccessStore::DeleteWorkerKey(const std::string& worker) {
  return Run(Statements().delete_worker_key, {worker});
}

}  // namespace nerf
