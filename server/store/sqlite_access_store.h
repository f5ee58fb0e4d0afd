#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "server/access/access_store.h"
#include "server/store/store_rows.h"

struct sqlite3;

namespace nerf {

// access.db beside queue.db: a file of its own, so that making a token waits for no commit of the
// queue. Thread-safe.
class SqliteAccessStore final : public AccessStore {
 public:
  // Makes the file (mode 0600) where missing. Errors: DataLoss STORE_CORRUPT; FailedPrecondition
  // for one of a newer program; those of the file system.
  static absl::StatusOr<std::unique_ptr<SqliteAccessStore>> Open(const std::string& path);
  // Opens and loads a copy of the file, which stays as it is. Errors: those of Open and Load.
  static absl::Status Check(const std::string& path);
  ~SqliteAccessStore() override;

  // Writes a copy to `path`, which does not exist, for the owner alone.
  absl::Status CopyTo(const std::string& path) ABSL_LOCKS_EXCLUDED(mu_);

  // Calls `visit` for each row of a table (kAccessTables).
  absl::Status ReadRows(const StoreTable& table, const VisitRow& visit) ABSL_LOCKS_EXCLUDED(mu_);

  absl::StatusOr<StoredAccess> Load() override;
  absl::Status AddToken(const TokenRecord& token) override;
  absl::Status DeleteToken(const std::string& id) override;
  absl::Status PutWorkerKey(const WorkerKeyRecord& key) override;
  absl::Status DeleteWorkerKey(const std::string& worker) override;

 private:
  explicit SqliteAccessStore(sqlite3* db) : db_(db) {}
  absl::Status Prepare();

  Mutex mu_;
  sqlite3* const db_ ABSL_PT_GUARDED_BY(mu_);
};

}  // namespace nerf
