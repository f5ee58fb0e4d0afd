#include "worker/files/blob_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "common/files/atomic_file.h"
#include "common/files/sha256.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "worker/base/call_result.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kReadOnly = 0444;
constexpr double kMaxBlobBytes = 9007199254740992.0;  // 2^53

}  // namespace

BlobCache::BlobCache(std::string folder, uint64_t max_bytes, BlobTransport& transport)
    : folder_(std::move(folder)), max_bytes_(max_bytes), transport_(transport) {
  struct Found {
    fs::file_time_type time;
    std::string sha256;
    uint64_t byte_size;
  };
  std::vector<Found> found;
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::error_code ignored;
    if (it->is_regular_file(ignored) && !it->is_symlink(ignored) && IsSha256Hex(name)) {
      found.push_back({it->last_write_time(ignored), name, it->file_size(ignored)});
    } else {
      fs::remove(it->path(), ignored);
    }
  }
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return a.time < b.time; });
  MutexLock lock(mu_);
  for (const Found& file : found) Touch(file.sha256, file.byte_size, /*pin=*/false);
  Shrink();
}

std::string BlobCache::PathOf(const std::string& sha256) const { return folder_ + "/" + sha256; }

uint64_t BlobCache::byte_size() const {
  MutexLock lock(mu_);
  return byte_size_;
}

void BlobCache::Touch(const std::string& sha256, uint64_t byte_size, bool pin) {
  auto [it, inserted] = entries_.try_emplace(sha256);
  Entry& entry = it->second;
  if (!inserted) {
    uses_.erase(entry.use);
    byte_size_ -= entry.byte_size;
  }
  uses_.push_front(sha256);
  entry.use = uses_.begin();
  entry.byte_size = byte_size;
  byte_size_ += byte_size;
  if (pin) ++entry.pins;
}

void BlobCache::Shrink() {
  // The newest stays even if it alone is above the limit: its caller is about to link it.
  for (auto it = uses_.end(); byte_size_ > max_bytes_ && it != uses_.begin();) {
    --it;
    const auto entry = entries_.find(*it);
    if (entry->second.pins > 0 || it == uses_.begin()) continue;
    // Under the lock: another thread may download the same blob again.
    std::error_code ignored;
    fs::remove(PathOf(*it), ignored);
    byte_size_ -= entry->second.byte_size;
    entries_.erase(entry);
    it = uses_.erase(it);
  }
}

absl::StatusOr<std::string> BlobCache::Fetch(const v1::BlobRef& blob, bool pin,
                                             std::stop_token stop) {
  if (!IsSha256Hex(blob.sha256())) {
    return absl::InvalidArgumentError(fmt::format("\"{}\" is no SHA-256", blob.sha256()));
  }
  if (!(blob.size_bytes() >= 0 && blob.size_bytes() <= kMaxBlobBytes) ||
      blob.size_bytes() != std::floor(blob.size_bytes())) {
    return absl::InvalidArgumentError(fmt::format("blob {}: bad size", blob.sha256()));
  }
  const auto byte_size = static_cast<uint64_t>(blob.size_bytes());
  const std::string path = PathOf(blob.sha256());
  std::optional<FileStamp> stamp = StampOfFile(path);
  bool present = false, verified = false;
  {
    MutexLock lock(mu_);
    const auto it = entries_.find(blob.sha256());
    present = stamp.has_value() && it != entries_.end() && it->second.byte_size == byte_size;
    verified = present && it->second.verified == stamp;
  }
  if (present && !verified) {
    const absl::StatusOr<std::string> digest = Sha256OfFile(path);
    if (!digest.ok() || *digest != blob.sha256()) {
      LogWarning("cached blob is damaged, fetching it again", {{"sha256", blob.sha256()}});
      present = false;
    }
  }
  while (true) {
    if (!present) {
      NERF_RETURN_IF_ERROR(Download(blob, stop));
      stamp = StampOfFile(path);
    }
    MutexLock lock(mu_);
    // Another thread may have evicted it since the check.
    present = stamp.has_value() && StampOfFile(path).has_value();
    if (!present) continue;
    Touch(blob.sha256(), byte_size, pin);
    entries_[blob.sha256()].verified = stamp;
    Shrink();
    return path;
  }
}

absl::Status BlobCache::Download(const v1::BlobRef& blob, std::stop_token stop) {
  absl::StatusOr<AtomicFile> file = AtomicFile::Create(PathOf(blob.sha256()), kReadOnly);
  if (!file.ok()) return AsOwnError(file.status());
  Sha256 sha256;
  NERF_RETURN_IF_ERROR(transport_.Read(
      blob,
      [&](std::string_view bytes) {
        // A blob larger than announced must not fill the disk.
        if (static_cast<double>(file->byte_size() + bytes.size()) > blob.size_bytes()) {
          return absl::DataLossError(
              fmt::format("blob {} is longer than announced", blob.sha256()));
        }
        sha256.Update(bytes);
        return AsOwnError(file->Append(bytes));
      },
      stop));
  if (static_cast<double>(file->byte_size()) != blob.size_bytes() ||
      sha256.HexDigest() != blob.sha256()) {
    absl::Status checked = transport_.Check(blob, stop);
    if (absl::IsDataLoss(checked)) return checked;
    return absl::DataLossError(
        fmt::format("blob {}: the received bytes have another digest", blob.sha256()));
  }
  return AsOwnError(file->Commit());
}

void BlobCache::Unpin(const std::string& sha256) {
  MutexLock lock(mu_);
  const auto it = entries_.find(sha256);
  if (it != entries_.end() && it->second.pins > 0) --it->second.pins;
  Shrink();
}

}  // namespace nerf
