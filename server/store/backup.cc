#include "server/store/backup.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <set>
#include <span>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/error_reason.h"
#include "common/files/file_io.h"
#include "common/files/sha256.h"
#include "common/ids.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "server/queue/state/queue_state.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPart = ".part";  // a backup's folder ends with it until it is whole

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

// The files and folders that a restore has made. It removes them unless they are to be kept.
class MadeFiles {
 public:
  ~MadeFiles() {
    std::error_code error;
    for (auto path = paths_.rbegin(); path != paths_.rend(); ++path) fs::remove(*path, error);
  }
  void Add(const fs::path& path) { paths_.push_back(path); }
  void Keep() { paths_.clear(); }

 private:
  std::vector<fs::path> paths_;
};

absl::Status MakeFolder(const fs::path& path, MadeFiles* made) {
  std::error_code error;
  if (fs::create_directory(path, error)) made->Add(path);
  return ToStatus(error, "create " + path.string());
}

// Copies a file under another name, and gives it its own once it is whole on disk. is_private: for
// this user alone, with the right to write.
absl::Status CopyWhole(const fs::path& from, const fs::path& to, bool is_private, MadeFiles* made) {
  const std::string part = to.string() + ".part";
  made->Add(part);
  std::error_code error;
  fs::copy_file(from, part, fs::copy_options::overwrite_existing, error);
  NERF_RETURN_IF_ERROR(ToStatus(error, "copy to " + part));
  NERF_RETURN_IF_ERROR(SyncFile(part));
  if (is_private) fs::permissions(part, fs::perms::owner_read | fs::perms::owner_write, error);
  if (rename(part.c_str(), to.c_str()) != 0) return ErrnoToStatus(errno, "rename " + part);
  made->Add(to);
  return absl::OkStatus();
}

absl::Status LinkOrCopy(const fs::path& from, const fs::path& to, MadeFiles* made) {
  std::error_code error;
  const bool existed = fs::exists(fs::symlink_status(to, error));
  if (existed && fs::file_size(to, error) == fs::file_size(from, error)) return absl::OkStatus();
  if (!existed && link(from.c_str(), to.c_str()) == 0) {
    made->Add(to);
    return absl::OkStatus();
  }
  if (existed || errno == EXDEV || errno == EPERM || errno == EMLINK)
    return CopyWhole(from, to, /*is_private=*/false, made);
  return ErrnoToStatus(errno, "link " + to.string());
}

// Backups of older versions have no access.db, and one that the folder has stays.
bool RestoresAccess(const std::string& from, const std::string& data_dir) {
  std::error_code error;
  return fs::exists(from + "/access.db", error) && !fs::exists(data_dir + "/access.db", error);
}

absl::Status RefuseUsedFolder(const std::string& data_dir) {
  std::error_code error;
  if (!fs::exists(data_dir + "/queue.db", error)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{} has a queue.db already: restore into an empty folder", data_dir));
}

std::string BlobPath(const std::string& folder, const std::string& sha256) {
  return fmt::format("{}/blobs/{}/{}", folder, sha256.substr(0, 2), sha256);
}

// The blobs of a backup.
class BackupBlobs final : public BlobIndex {
 public:
  explicit BackupBlobs(std::string folder) : folder_(std::move(folder)) {}

  std::vector<BlobRef> FindMissing(std::span<const BlobRef> blobs) override {
    std::vector<BlobRef> missing;
    for (const BlobRef& blob : blobs) {
      const std::string path = BlobPath(folder_, blob.sha256);
      std::error_code error;
      if (!fs::is_regular_file(fs::symlink_status(path, error)) ||
          fs::file_size(path, error) != blob.byte_size) {
        missing.push_back(blob);
      }
    }
    return missing;
  }
  void Release(const BlobRef&) override {}

 private:
  const std::string folder_;
};

absl::Status CheckBlobs(const std::string& from, QueueState& state, bool accept_data_loss) {
  std::vector<BlobRef> named;
  state.VisitNamedBlobs([&](const std::string&, const BlobRef& blob) { named.push_back(blob); });
  std::sort(named.begin(), named.end());
  named.erase(std::unique(named.begin(), named.end()), named.end());
  const std::vector<BlobRef> missing = state.blobs.FindMissing(named);
  if (missing.empty()) return absl::OkStatus();
  std::error_code error;
  if (fs::exists(fmt::format("{}/blobs/{}", from, kElsewhereFile), error)) {
    LogInfo("the blobs of the backup are elsewhere and were not looked for", {{"backup", from}});
    return absl::OkStatus();
  }
  const std::string what = fmt::format(
      "{} of {} blobs of the backup are missing or have another size; the first, of {} bytes, is "
      "{}",
      missing.size(), named.size(), missing[0].byte_size, BlobPath(from, missing[0].sha256));
  if (accept_data_loss) {
    LogWarning("restoring without blobs", {{"error", what}});
    return absl::OkStatus();
  }
  return WithReason(absl::DataLossError(what), reason::kBlobDamaged);
}

// The same status with the file's path in front of its message.
absl::Status InFile(const std::string& path, const absl::Status& status) {
  if (status.ok()) return status;
  absl::Status named(status.code(), fmt::format("{}: {}", path, std::string(status.message())));
  const auto why = GetReason(status);
  return why.has_value() ? WithReason(std::move(named), why->reason) : named;
}

// Visits the blobs of a backup until one's status is an error, which is returned.
absl::Status VisitBlobs(const std::string& backup,
                        const std::function<absl::Status(const fs::path&)>& visit) {
  std::error_code error;
  fs::recursive_directory_iterator it, end;
  // With blobs elsewhere, or where their loss was accepted, there is no such folder.
  if (fs::exists(backup + "/blobs", error)) it = decltype(it)(backup + "/blobs", error);
  for (; !error && it != end; it.increment(error)) {
    if (IsSha256Hex(it->path().filename().string())) NERF_RETURN_IF_ERROR(visit(it->path()));
  }
  return ToStatus(error, "list " + backup + "/blobs");
}

// The queue's database of a backup, and that all blobs are there which it names.
absl::Status CheckQueue(const std::string& from, bool accept_data_loss) {
  const std::string queue = from + "/queue.db";
  std::error_code error;
  if (!fs::is_regular_file(queue, error)) {
    return absl::NotFoundError(fmt::format("{} is no backup: it has no queue.db", from));
  }
  // What they give to the copy in memory ends with it.
  RealClock clock;
  SystemRandom random;
  BackupBlobs blobs(from);
  const auto store =
      SqliteStore::Open(queue, random, {.accept_data_loss = accept_data_loss, .in_memory = true});
  NERF_RETURN_IF_ERROR(InFile(queue, store.status()));
  const auto state = QueueState::Open(
      {}, {.clock = &clock, .random = &random, .store = store->get(), .blobs = &blobs});
  NERF_RETURN_IF_ERROR(InFile(queue, state.status()));
  return CheckBlobs(from, **state, accept_data_loss);
}

absl::Status CheckAccess(const std::string& from) {
  const std::string access = from + "/access.db";
  return InFile(access, SqliteAccessStore::Check(access));
}

}  // namespace

absl::StatusOr<BackupSummary> WriteBackup(SqliteStore& store, BlobStore& blobs,
                                          const std::string& data_dir, const std::string& id,
                                          SqliteAccessStore* access) {
  const std::string folder = data_dir + "/backups";
  BackupSummary summary;
  summary.path = folder + "/" + id;
  // A backup that was interrupted is written anew.
  const std::string part = summary.path + std::string(kPart);
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
  NERF_RETURN_IF_ERROR(FsyncDirectory(data_dir));  // the first backup has made `folder`
  return summary;
}

absl::StatusOr<std::vector<ListedBackup>> ListBackups(const std::string& data_dir) {
  const std::string folder = data_dir + "/backups";
  std::vector<ListedBackup> backups;
  std::error_code error;
  if (!fs::exists(folder, error)) return backups;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (!fs::is_directory(it->symlink_status(ignored))) continue;
    ListedBackup backup;
    backup.id = it->path().filename().string();
    backup.is_whole = !backup.id.ends_with(kPart);
    if (!backup.is_whole) backup.id.resize(backup.id.size() - kPart.size());
    if (backup.is_whole && !fs::exists(it->path() / "queue.db", ignored)) continue;
    struct stat status = {};
    if (stat(it->path().c_str(), &status) == 0)
      backup.taken = absl::TimeFromTimespec(status.st_mtim);
    const absl::Status visited = VisitBlobs(it->path().string(), [&](const fs::path& blob) {
      std::error_code gone;  // an unfinished one goes on meanwhile
      const uintmax_t size = fs::file_size(blob, gone);
      if (gone) return absl::OkStatus();
      ++backup.n_blobs;
      backup.blob_bytes += size;
      return absl::OkStatus();
    });
    if (backup.is_whole) NERF_RETURN_IF_ERROR(visited);
    backups.push_back(std::move(backup));
  }
  NERF_RETURN_IF_ERROR(ToStatus(error, "list " + folder));
  std::sort(backups.begin(), backups.end(), [](const ListedBackup& a, const ListedBackup& b) {
    return std::tie(a.taken, a.id) < std::tie(b.taken, b.id);
  });
  return backups;
}

absl::Status CheckBackup(const std::string& from, const std::string& data_dir,
                         bool accept_data_loss) {
  NERF_RETURN_IF_ERROR(RefuseUsedFolder(data_dir));
  NERF_RETURN_IF_ERROR(CheckQueue(from, accept_data_loss));
  return RestoresAccess(from, data_dir) ? CheckAccess(from) : absl::OkStatus();
}

absl::StatusOr<BackupSummary> VerifyBackup(const std::string& from) {
  NERF_RETURN_IF_ERROR(CheckQueue(from, /*accept_data_loss=*/false));
  std::error_code error;
  if (fs::exists(from + "/access.db", error)) NERF_RETURN_IF_ERROR(CheckAccess(from));
  BackupSummary summary;
  summary.path = from;
  NERF_RETURN_IF_ERROR(VisitBlobs(from, [&](const fs::path& blob) -> absl::Status {
    const absl::StatusOr<std::string> digest = Sha256OfFile(blob.string());
    if (!digest.ok()) {
      return absl::UnavailableError(
          fmt::format("{}: {}", blob.string(), std::string(digest.status().message())));
    }
    if (*digest != blob.filename()) {
      return WithReason(
          absl::DataLossError(
              fmt::format("{} is damaged: its content has the digest {}", blob.string(), *digest)),
          reason::kBlobDamaged);
    }
    std::error_code gone;
    ++summary.n_blobs;
    summary.blob_bytes += fs::file_size(blob, gone);
    return ToStatus(gone, "size of " + blob.string());
  }));
  return summary;
}

absl::Status RestoreBackup(const std::string& from, const std::string& data_dir) {
  NERF_RETURN_IF_ERROR(RefuseUsedFolder(data_dir));
  MadeFiles made;
  NERF_RETURN_IF_ERROR(MakeFolder(data_dir + "/blobs", &made));
  std::error_code error;
  std::set<std::string> folders = {data_dir + "/blobs"};
  NERF_RETURN_IF_ERROR(VisitBlobs(from, [&](const fs::path& blob) -> absl::Status {
    const fs::path target = BlobPath(data_dir, blob.filename().string());
    NERF_RETURN_IF_ERROR(MakeFolder(target.parent_path(), &made));
    folders.insert(target.parent_path().string());
    return LinkOrCopy(blob, target, &made);
  }));
  for (const std::string& folder : folders) NERF_RETURN_IF_ERROR(FsyncDirectory(folder));
  NERF_RETURN_IF_ERROR(FsyncDirectory(data_dir));  // before queue.db names the blobs
  if (RestoresAccess(from, data_dir)) {
    NERF_RETURN_IF_ERROR(
        CopyWhole(from + "/access.db", data_dir + "/access.db", /*is_private=*/true, &made));
  }
  // The counts of an earlier store mean nothing now.
  fs::remove(data_dir + "/queue.db.commits", error);
  // Last: with it the folder counts as restored.
  NERF_RETURN_IF_ERROR(
      CopyWhole(from + "/queue.db", data_dir + "/queue.db", /*is_private=*/true, &made));
  NERF_RETURN_IF_ERROR(FsyncDirectory(data_dir));
  made.Keep();
  return absl::OkStatus();
}

}  // namespace nerf
