#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/ids.h"
#include "server/access/access_store.h"
#include "server/main/data_dir.h"
#include "server/main/server_flags.h"
#include "server/queue/state/job_store.h"
#include "server/store/backup.h"
#include "server/store/blob_store.h"

namespace nerf {

// The stores of a running server: files of the data folder, or a database (--store).
struct ServerStores {
  std::unique_ptr<JobStore> jobs;
  std::unique_ptr<AccessStore> access;
  // Writes a backup with that id; FailedPrecondition where the database is backed up by its own
  // tools.
  std::function<absl::StatusOr<BackupSummary>(BlobStore& blobs, const std::string& id)> backup;
  // Of a replica: see PostgresStores.
  uint64_t term = 0;
  SteadyTime lease_began;
  std::function<bool()> is_broken = {};
};

// Opens them; `has_blobs`: the blob store holds some. A replica leads from then on. Errors: those
// of SqliteStore::Open, SqliteAccessStore::Open and OpenPostgresStores; DataLoss, with what to do,
// also for a queue.db that is missing beside blobs.
absl::StatusOr<ServerStores> OpenServerStores(const ServerFlags& flags, const DataDir& data,
                                              bool has_blobs, RandomSource& random);

// FailedPrecondition, with what to do, where the folder has a queue.db or blobs: other replicas
// would lack them.
absl::Status CheckReplicaFolder(const DataDir& data);

// `status`; where it is DataLoss of the queue's store, with what to do.
absl::Status WithDataLossHint(const absl::Status& status, const ServerFlags& flags);

}  // namespace nerf
