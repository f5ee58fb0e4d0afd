#include "server/store/blob_scrubber.h"

#include <algorithm>
#include <utility>

namespace nerf {
namespace {

constexpr size_t kPiece = size_t{1} << 18;
constexpr absl::Duration kMostBetweenTicks = absl::Seconds(2);  // what a stall may catch up with

}  // namespace

BlobScrubber::BlobScrubber(BlobStore* store, const Clock* clock, const ScrubOptions& options)
    : store_(*store),
      clock_(*clock),
      options_(options),
      next_pass_(clock->Now() + options.interval),
      ticked_at_(clock->Now()) {}

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
    if (reader_ == nullptr && !OpenNext()) {
      in_pass_ = false;
      return;
    }
    allowance_ -= static_cast<double>(ReadPiece());
  }
}

bool BlobScrubber::OpenNext() {
  while (true) {
    while (blobs_.empty()) {
      if (next_folder_ == BlobStore::kFolders) return false;
      blobs_ = store_.ListFolder(next_folder_++);
    }
    const BlobRef blob = std::move(blobs_.back());
    blobs_.pop_back();
    auto reader = store_.OpenRead(blob, 0, blob.byte_size);
    if (!reader.ok()) continue;  // deleted meanwhile
    reader_ = *std::move(reader);
    reader_->ForgetCached();
    return true;
  }
}

uint64_t BlobScrubber::ReadPiece() {
  const absl::StatusOr<std::string> piece = reader_->Read(kPiece);  // moves a damaged one aside
  if (!piece.ok() || reader_->at_end()) reader_.reset();
  return (piece.ok() ? piece->size() : 0) + kPiece / 64;  // opening a file costs time, too
}

}  // namespace nerf
