#include "server/store/blob_scrubber.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/logging.h"

namespace nerf {
namespace {

constexpr size_t kPiece = size_t{1} << 18;
constexpr absl::Duration kMostBetweenTicks = absl::Seconds(2);  // what a stall may catch up with

}  // namespace

BlobScrubber::BlobScrubber(BlobStore* store, const Clock* clock, const ScrubOptions& options,
                           OnDamaged on_damaged)
    : store_(*store),
      clock_(*clock),
      options_(options),
      on_damaged_(std::move(on_damaged)),
      next_pass_(clock->Now() + options.interval),
      ticked_at_(clock->Now()),
      buffer_(kPiece, '\0') {}

void BlobScrubber::Tick() {
  if (options_.interval <= absl::ZeroDuration()) return;
  const SteadyTime now = clock_.Now();
  const absl::Duration passed = std::min(now - ticked_at_, kMostBetweenTicks);
  ticked_at_ = now;
  if (!in_pass_) {
    if (now < next_pass_) return;
    in_pass_ = true;
    next_pass_ = now + options_.interval;
    next_folder_ = 0;
    allowance_ = 0;
  }
  allowance_ += absl::ToDoubleSeconds(passed) * options_.bytes_per_second;
  while (in_pass_ && allowance_ > 0) {
    if (!fd_.ok() && !OpenNext()) {
      in_pass_ = false;
      return;
    }
    allowance_ -= static_cast<double>(ReadPiece());
  }
}

bool BlobScrubber::OpenNext() {
  while (true) {
    while (names_.empty()) {
      if (next_folder_ == BlobStore::kFolders) return false;
      names_ = store_.ListFolder(next_folder_++);
    }
    sha256_ = std::move(names_.back());
    names_.pop_back();
    fd_ = store_.OpenToCheck(sha256_);
    if (!fd_.ok()) continue;  // deleted meanwhile
    // What the disk has, not what memory remembers of it.
    posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED);
    digest_ = Sha256();
    return true;
  }
}

uint64_t BlobScrubber::ReadPiece() {
  const ssize_t n = read(fd_.get(), buffer_.data(), buffer_.size());
  if (n < 0 && errno == EINTR) return 0;
  if (n > 0) {
    digest_.Update({buffer_.data(), static_cast<size_t>(n)});
    return static_cast<uint64_t>(n);
  }
  const UniqueFd fd = std::move(fd_);
  fd_ = UniqueFd();
  // An unreadable sector is damage, too.
  const bool damaged = n < 0 || digest_.HexDigest() != sha256_;
  if (damaged && store_.MoveAside(sha256_, fd.get())) {
    LogError("a blob is damaged on the disk and was moved aside; upload it again",
             {{"sha256", sha256_}});
    on_damaged_(sha256_);
  }
  return kPiece / 64;  // opening a file costs time, too
}

}  // namespace nerf
