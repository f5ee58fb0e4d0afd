#include "server/store/backup.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "common/error_reason.h"
#include "common/file_io.h"
#include "common/sha256.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

absl::Status ToStatus(const std::error_code& error, const std::string& action) {
  return error ? ErrnoToStatus(error.value(), action) : absl::OkStatus();
}

absl::Status MakeFolders(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  return ToStatus(error, "create " + path);
}

absl::Status SyncFile(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok() || fsync(fd.get()) != 0) return ErrnoToStatus(errno, "sync " + path);
  return absl::OkStatus();
}

absl::Status CopySynced(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::copy_file(from, to, fs::copy_options::overwrite_existing, error);
  NERF_RETURN_IF_ERROR(ToStatus(error, "copy to " + to.string()));
  return SyncFile(to);
}

absl::Status LinkOrCopy(const fs::path& from, const fs::path& to) {
  if (link(from.c_str(), to.c_str()) == 0 || errno == EEXIST) return absl::OkStatus();
  if (errno == EXDEV || errno == EPERM || errno == EMLINK) return CopySynced(from, to);
  return ErrnoToStatus(errno, "link " + to.string());
}

absl::Status RestoreAccess(const std::string& from, const std::string& data_dir) {
  const std::string source = from + "/access.db", target = data_dir + "/access.db";
  std::error_code error;
  // Backups of older versions have none.
  if (!fs::exists(source, error) || fs::exists(target, error)) return absl::OkStatus();
  const std::string part = target + ".part";
  NERF_RETURN_IF_ERROR(CopySynced(source, part));
  fs::permissions(part, fs::perms::owner_read | fs::perms::owner_write, error);
  if (rename(part.c_str(), target.c_str()) != 0) return ErrnoToStatus(errno, "rename " + part);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BackupSummary> WriteBackup(SqliteStore& store, BlobStore& blobs,
                                          const std::string& data_dir, const std::string& id,
                                          SqliteAccessStore* access) {
  const std::string folder = data_dir + "/backups";
  BackupSummary summary;
  summary.path = folder + "/" + id;
  // A backup that was interrupted is written anew.
  const std::string part = summary.path + ".part";
  std::error_code error;
  if (fs::exists(summary.path, error)) {
    return WithReason(absl::AlreadyExistsError(fmt::format("there is a backup {}", id)),
                      reason::kAlreadyExists);
  }
  fs::remove_all(part, error);
  NERF_RETURN_IF_ERROR(MakeFolders(part));
  NERF_ASSIGN_OR_RETURN(const BlobStoreStats linked, blobs.LinkAll(part + "/blobs", [&] {
    return store.CopyTo(part + "/queue.db");
  }));
  summary.n_blobs = linked.n_blobs;
  summary.blob_bytes = linked.byte_size;
  NERF_RETURN_IF_ERROR(SyncFile(part + "/queue.db"));
  if (access != nullptr) {
    NERF_RETURN_IF_ERROR(access->CopyTo(part + "/access.db"));
    NERF_RETURN_IF_ERROR(SyncFile(part + "/access.db"));
  }
  NERF_RETURN_IF_ERROR(FsyncDirectory(part));
  if (rename(part.c_str(), summary.path.c_str()) != 0) {
    return ErrnoToStatus(errno, "rename " + part);
  }
  NERF_RETURN_IF_ERROR(FsyncDirectory(folder));
  return summary;
}

absl::Status CheckBackup(const std::string& from) {
  std::error_code error;
  if (fs::exists(from + "/queue.db", error)) return absl::OkStatus();
  return absl::NotFoundError(fmt::format("{} is no backup: it has no queue.db", from));
}

absl::Status RestoreBackup(const std::string& from, const std::string& data_dir) {
  std::error_code error;
  if (fs::exists(data_dir + "/queue.db", error)) {
    return absl::FailedPreconditionError(
        fmt::format("{} has a queue.db already: restore into an empty folder", data_dir));
  }
  NERF_RETURN_IF_ERROR(CheckBackup(from));
  for (fs::recursive_directory_iterator it(from + "/blobs", error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!IsSha256Hex(name)) continue;
    const std::string target = fmt::format("{}/blobs/{}", data_dir, name.substr(0, 2));
    NERF_RETURN_IF_ERROR(MakeFolders(target));
    NERF_RETURN_IF_ERROR(LinkOrCopy(it->path(), fs::path(target) / name));
  }
  NERF_RETURN_IF_ERROR(ToStatus(error, "list " + from + "/blobs"));
  NERF_RETURN_IF_ERROR(RestoreAccess(from, data_dir));
  // Last: with it the folder counts as restored. The counts of an earlier store mean nothing now.
  fs::remove(data_dir + "/queue.db.commits", error);
  const std::string part = data_dir + "/queue.db.part";
  NERF_RETURN_IF_ERROR(CopySynced(from + "/queue.db", part));
  if (rename(part.c_str(), (data_dir + "/queue.db").c_str()) != 0) {
    return ErrnoToStatus(errno, "rename " + part);
  }
  return FsyncDirectory(data_dir);
}

}  // namespace nerf
