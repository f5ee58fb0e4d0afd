#include "server/main/store_setup.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "common/status_macros.h"
#include "server/store/folder_blob_store.h"
#include "server/store/postgres/postgres_stores.h"
#include "server/store/sqlite_access_store.h"
#include "server/store/sqlite_store.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

// DataLoss for a queue.db that is missing beside blobs: a new one would be an empty queue.
absl::Status CheckQueueFile(const DataDir& data, bool accept_data_loss, bool has_blobs) {
  std::error_code error;
  if (fs::exists(data.File("queue.db"), error)) return absl::OkStatus();
  if (fs::exists(data.File("queue.db.moved"), error)) {
    return absl::FailedPreconditionError(fmt::format(
        "the queue of {} was moved into PostgreSQL: start nerfd with --store", data.path()));
  }
  if (accept_data_loss) {
    fs::remove(data.File("queue.db.commits"), error);
    return absl::OkStatus();
  }
  if (!has_blobs && !fs::exists(data.File("queue.db.commits"), error)) return absl::OkStatus();
  return absl::DataLossError("queue.db is missing in " + data.path() + " beside blobs of its jobs");
}

absl::StatusOr<ServerStores> OpenFiles(const ServerFlags& flags, const DataDir& data,
                                       bool has_blobs, RandomSource& random) {
  NERF_RETURN_IF_ERROR(
      WithDataLossHint(CheckQueueFile(data, flags.accept_data_loss, has_blobs), flags));
  auto jobs = SqliteStore::Open(
      data.File("queue.db"), random,
      {.accept_data_loss = flags.accept_data_loss, .new_epoch = !flags.restore.empty()});
  NERF_RETURN_IF_ERROR(WithDataLossHint(jobs.status(), flags));
  NERF_ASSIGN_OR_RETURN(auto access, SqliteAccessStore::Open(data.File("access.db")));
  ServerStores stores;
  stores.backup = [jobs = jobs->get(), access = access.get(), folder = data.path()](
                      BlobStore& blobs, const std::string& id) {
    return WriteBackup(*jobs, blobs, folder, id, access);
  };
  stores.jobs = *std::move(jobs);
  stores.access = std::move(access);
  return stores;
}

absl::Status CheckNoQueueFile(const DataDir& data) {
  std::error_code error;
  if (!fs::exists(data.File("queue.db"), error)) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "{} has a queue.db: move it with --move-store, or name another --data-dir", data.path()));
}

absl::StatusOr<ServerStores> OpenDatabase(const ServerFlags& flags, const DataDir& data,
                                          RandomSource& random) {
  NERF_RETURN_IF_ERROR(CheckNoQueueFile(data));
  auto opened = OpenPostgresStores({.uri = flags.store,
                                    .seat = SeatOf(flags),
                                    .commits_file = data.File("postgres.commits"),
                                    .accept_data_loss = flags.accept_data_loss},
                                   random);
  NERF_RETURN_IF_ERROR(WithDataLossHint(opened.status(), flags));
  ServerStores stores;
  stores.jobs = std::move(opened->jobs);
  stores.access = std::move(opened->access);
  stores.term = opened->term;
  stores.lease_began = opened->lease_began;
  stores.is_broken = std::move(opened->is_broken);
  stores.backup = [](BlobStore&, const std::string&) {
    return absl::FailedPreconditionError(
        "the queue is in PostgreSQL: back it up with pg_dump, and the blobs by a copy");
  };
  return stores;
}

}  // namespace

absl::StatusOr<ServerStores> OpenServerStores(const ServerFlags& flags, const DataDir& data,
                                              bool has_blobs, RandomSource& random) {
  if (!flags.store.empty()) return OpenDatabase(flags, data, random);
  return OpenFiles(flags, data, has_blobs, random);
}

absl::Status CheckReplicaFolder(const DataDir& data) {
  NERF_RETURN_IF_ERROR(CheckNoQueueFile(data));
  NERF_ASSIGN_OR_RETURN(const bool has_blobs, HasBlobFiles(data.path()));
  if (!has_blobs) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{} has blobs, which the other replicas lack: start nerfd once without "
                  "--replica-host, until it has moved them to --blobs",
                  data.path()));
}

absl::Status WithDataLossHint(const absl::Status& status, const ServerFlags& flags) {
  if (!absl::IsDataLoss(status)) return status;
  if (!flags.store.empty()) {
    return absl::DataLossError(fmt::format(
        "{}. Restore the database that belongs to the data folder{}", std::string(status.message()),
        flags.accept_data_loss
            ? ""
            : ", or start once with --accept-data-loss to go on with what it has"));
  }
  const char* hint = flags.accept_data_loss
                         ? "Put a backup of the whole data folder back, or move queue.db and "
                           "queue.db-wal away to begin with an empty queue"
                         : "Put a backup of the whole data folder back, or start once with "
                           "--accept-data-loss to go on with what is left";
  return absl::DataLossError(fmt::format("{}. {}", std::string(status.message()), hint));
}

}  // namespace nerf
