#include "worker/base/worker_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "common/files/atomic_file.h"
#include "common/files/sha256.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

// 256 random bits in hexadecimal.
std::string DrawKey(RandomSource& random) {
  std::array<uint8_t, 32> bytes;
  random.Fill(bytes);
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// Reads the line in `path`. If the file is missing, draws one and writes it.
absl::StatusOr<std::string> ReadOrDraw(const std::string& path, uint32_t mode, const char* missing,
                                       bool (*is_valid)(std::string_view),
                                       const std::function<std::string()>& draw) {
  absl::StatusOr<std::string> content = ReadFile(path, 256);
  if (content.ok()) {
    std::string line(absl::StripAsciiWhitespace(*content));
    if (is_valid(line)) return line;
    return absl::DataLossError(
        fmt::format("{} holds {}; remove worker_id and worker_key there to become a new worker",
                    path, missing));
  }
  if (!absl::IsNotFound(content.status())) return content.status();
  std::string drawn = draw();
  NERF_RETURN_IF_ERROR(WriteFileAtomically(path, drawn + "\n", mode));
  return drawn;
}

}  // namespace

absl::StatusOr<WorkerLock> WorkerLock::Acquire(const std::string& cache_dir, RandomSource& random) {
  std::error_code error;
  std::filesystem::create_directories(cache_dir, error);
  if (error) return ErrnoToStatus(error.value(), "create " + cache_dir);
  // It holds the photographs of all projects. A volume that another user owns stays as it is.
  std::filesystem::permissions(cache_dir, std::filesystem::perms::owner_all, error);
  const std::string lock_path = cache_dir + "/lock";
  UniqueFd fd(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd.ok()) return ErrnoToStatus(errno, "open " + lock_path);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoToStatus(errno, "lock " + lock_path);
    char holder[32] = {};
    const ssize_t n = pread(fd.get(), holder, sizeof(holder) - 1, 0);
    return absl::FailedPreconditionError(fmt::format(
        "{} belongs to a worker that is running{}; give this one another --cache-dir", cache_dir,
        n > 0 ? fmt::format(" (process {})", std::string(absl::StripAsciiWhitespace(holder)))
              : ""));
  }
  // The process id of the holder, for people only.
  if (ftruncate(fd.get(), 0) == 0) {
    WriteFully(fd.get(), fmt::format("{}\n", getpid()), 0, lock_path).IgnoreError();
  }

  NERF_ASSIGN_OR_RETURN(std::string id,
                        ReadOrDraw(cache_dir + "/worker_id", 0644, "no worker id", IsResourceId,
                                   [&random] { return NewShortId("w", random); }));
  NERF_ASSIGN_OR_RETURN(std::string key,
                        ReadOrDraw(cache_dir + "/worker_key", 0600, "no worker key", IsSha256Hex,
                                   [&random] { return DrawKey(random); }));
  return WorkerLock(std::move(fd), std::move(id), std::move(key));
}

}  // namespace nerf
