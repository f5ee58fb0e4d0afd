#include "server/main/data_dir.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "common/files/atomic_file.h"
#include "common/logging.h"
#include "common/rpc/channel.h"
#include "common/shell_word.h"
#include "common/status_macros.h"
#include "server/access/token_registry.h"

namespace nerf {
namespace {

std::string JsonEscaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      escaped += '\\';
      escaped += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      escaped += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      escaped += c;
    }
  }
  return escaped;
}

// Warns of a folder of this user that every user of the machine may enter. A folder of somebody
// else, such as a mounted volume, and access for a group are taken for intended.
void WarnIfOthersMayEnter(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 || status.st_uid != geteuid()) return;
  if ((status.st_mode & S_IRWXO) == 0) return;
  LogWarning("other users of this machine may enter the data folder",
             {{"folder", path},
              {"mode", fmt::format("{:04o}", status.st_mode & 07777)},
              {"remedy", fmt::format("chmod o-rwx {}", ShellWord(path))}});
}

// Makes a folder and those that it is in, with durable names. Folders that are there are synced,
// too: the start that made them may have ended before that.
absl::Status MakeFolders(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path folder = fs::absolute(path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  std::vector<std::pair<fs::path, bool>> parents;  // and whether they get a new name
  for (; folder.has_relative_path(); folder = folder.parent_path())
    parents.emplace_back(folder.parent_path(), !fs::exists(folder, error));
  fs::create_directories(path, error);
  if (error) return ErrnoToStatus(error.value(), "create " + path);
  for (const auto& [parent, is_changed] : parents) {
    // One that may not be listed cannot be synced.
    const absl::Status synced = FsyncDirectory(parent.string());
    if (!synced.ok() && is_changed && !absl::IsPermissionDenied(synced)) return synced;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DataDir> DataDir::Open(const std::string& path) {
  std::error_code error;
  const bool existed = std::filesystem::exists(path, error);
  NERF_RETURN_IF_ERROR(MakeFolders(path));
  // Private, because it holds tokens and photographs. An existing folder keeps its permissions.
  if (!existed) chmod(path.c_str(), 0700);
  WarnIfOthersMayEnter(path);
  const std::string lock_path = path + "/nerfd.lock";
  UniqueFd lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.ok()) return ErrnoToStatus(errno, "open " + lock_path);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoToStatus(errno, "lock " + lock_path);
    return absl::FailedPreconditionError(
        fmt::format("{} is in use by another nerfd; choose another --data-dir", path));
  }
  return DataDir(path, std::move(lock));
}

absl::StatusOr<std::string> DataDir::Token(const std::string& file, RandomSource& random) {
  const std::string path = File(file);
  absl::StatusOr<std::string> token = ReadTokenFile(path);
  if (token.ok()) {
    struct stat status {};
    if (stat(path.c_str(), &status) == 0 && (status.st_mode & 077) != 0) {
      LogWarning("a token could be read by others; the mode of its file is 0600 now",
                 {{"file", path}});
      chmod(path.c_str(), 0600);
    }
    return token;
  }
  if (!absl::IsNotFound(token.status())) return token.status();
  const std::string drawn = DrawSecret(random);
  NERF_RETURN_IF_ERROR(WriteFileAtomically(path, drawn + "\n", 0600));
  return drawn;
}

absl::Status DataDir::WriteAddresses(const ServedAddresses& addresses) {
  // Only a unix path may have characters that JSON must escape.
  return WriteFileAtomically(
      File("nerfd.ports"),
      fmt::format(
          "{{\"pid\":{},\"grpc\":\"{}\",\"metrics\":\"{}\",\"web\":\"{}\",\"health\":\"{}\","
          "\"page\":\"{}\",\"shared_page\":\"{}\"}}\n",
          getpid(), JsonEscaped(addresses.grpc), addresses.metrics, addresses.web,
          JsonEscaped(addresses.health), addresses.page, addresses.shared_page));
}

void DataDir::RemoveAddresses() { unlink(File("nerfd.ports").c_str()); }

}  // namespace nerf
