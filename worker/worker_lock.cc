#include "worker/worker_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "common/atomic_file.h"
#include "common/status_macros.h"

namespace nerf {

absl::StatusOr<WorkerLock> WorkerLock::Acquire(const std::string& cache_dir, RandomSource& random) {
  std::error_code error;
  std::filesystem::create_directories(cache_dir, error);
  if (error) return ErrnoToStatus(error.value(), "create " + cache_dir);
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

  const std::string id_path = cache_dir + "/worker_id";
  absl::StatusOr<std::string> content = ReadFile(id_path, 256);
  if (content.ok()) {
    std::string id(absl::StripAsciiWhitespace(*content));
    if (!IsResourceId(id)) {
      return absl::DataLossError(
          fmt::format("{} holds no worker id; remove it to become a new worker", id_path));
    }
    return WorkerLock(std::move(fd), std::move(id));
  }
  if (!absl::IsNotFound(content.status())) return content.status();
  std::string id = NewShortId("w", random);
  NERF_RETURN_IF_ERROR(WriteFileAtomically(id_path, id + "\n"));
  return WorkerLock(std::move(fd), std::move(id));
}

}  // namespace nerf
