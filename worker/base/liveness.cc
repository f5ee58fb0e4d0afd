#include "worker/base/liveness.h"

#include <fmt/format.h>
#include <time.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "common/files/atomic_file.h"
#include "common/files/file_io.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

constexpr absl::Duration kBeatInterval = absl::Seconds(5);
constexpr absl::Duration kMaxAge = absl::Minutes(1);

std::string PathIn(const std::string& cache_dir) { return cache_dir + "/alive"; }

}  // namespace

Liveness::Liveness(std::string cache_dir, const Clock* clock)
    : path_(PathIn(cache_dir)), clock_(clock), next_beat_(clock->Now()) {}

void Liveness::Beat(absl::Duration boot_time) {
  if (clock_->Now() < next_beat_) return;
  next_beat_ = clock_->Now() + kBeatInterval;
  WriteFileAtomically(path_, fmt::format("{}\n", absl::ToInt64Seconds(boot_time))).IgnoreError();
}

absl::Status Liveness::Check(const std::string& cache_dir, absl::Duration boot_time) {
  const absl::StatusOr<std::string> read = ReadFile(PathIn(cache_dir), 64);
  if (absl::IsNotFound(read.status())) {
    return absl::NotFoundError(fmt::format("{}: no worker has run here", cache_dir));
  }
  NERF_ASSIGN_OR_RETURN(const std::string text, read);
  int64_t seconds = 0;
  if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(text), &seconds)) {
    return absl::DataLossError(PathIn(cache_dir) + " holds no time");
  }
  const absl::Duration age = boot_time - absl::Seconds(seconds);
  // A beat in the future was written before the machine's last boot.
  if (age < -kBeatInterval || age > kMaxAge) {
    return absl::UnavailableError(fmt::format("the worker of {} was last heard of {} ago",
                                              cache_dir, absl::FormatDuration(age)));
  }
  return absl::OkStatus();
}

absl::Duration Liveness::BootTime() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return absl::DurationFromTimespec(now);
}

IdleLimit::IdleLimit(absl::Duration limit, const Clock* clock)
    : limit_(limit), clock_(clock), busy_until_(clock->Now()) {}

bool IdleLimit::Reached(bool idle) {
  const SteadyTime now = clock_->Now();
  if (!idle) busy_until_ = now;
  return limit_ > absl::ZeroDuration() && now - busy_until_ >= limit_;
}

}  // namespace nerf
