#include "server/store/store_age.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "common/files/atomic_file.h"
#include "common/files/file_io.h"
#include "common/logging.h"

namespace nerf {

StoreAge::StoreAge(const std::string& folder, const Clock* clock)
    : path_(folder + "/age"), clock_(*clock), opened_at_(clock->Now()) {
  constexpr uint64_t kMaxLength = 64;
  const absl::StatusOr<std::string> text = ReadFile(path_, kMaxLength);
  int64_t micros = 0;
  const bool known = text.ok() && absl::SimpleAtoi(*text, &micros) && micros > 0;
  // Files of a new store, and of one from before it had an age, were written by the wall clock.
  at_open_ = known ? absl::FromUnixMicros(micros) : clock_.WallNow();
  if (!known) Save();
}

void StoreAge::Save() const {
  const absl::Status saved =
      WriteFileAtomically(path_, fmt::format("{}\n", absl::ToUnixMicros(Now())), 0644);
  // The next server then goes on from an earlier time, and files stay a little longer.
  if (!saved.ok()) LogWarning("the age of blobs was not saved", {{"error", saved.ToString()}});
}

std::optional<uint64_t> FileSize(const std::string& path) {
  struct stat status;
  if (lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return static_cast<uint64_t>(status.st_size);
}

absl::Time FileTime(const std::string& path) {
  struct stat status;
  if (lstat(path.c_str(), &status) != 0) return absl::InfiniteFuture();
  return absl::TimeFromTimespec(status.st_mtim);
}

void SetFileTime(const std::string& path, absl::Time time) {
  const timespec times[2] = {absl::ToTimespec(time), absl::ToTimespec(time)};
  utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW);
}

}  // namespace nerf
