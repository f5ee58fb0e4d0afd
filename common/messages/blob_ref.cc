#include "common/messages/blob_ref.h"

#include <sys/stat.h>

#include <cerrno>
#include <cmath>
#include <utility>
#include <vector>

#include "common/files/file_io.h"
#include "common/files/sha256.h"
#include "common/problems.h"
#include "common/status_macros.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr double kMaxBlobBytes = 9007199254740992.0;  // 2^53

}  // namespace

absl::StatusOr<v1::BlobRef> BlobOfFile(const std::string& path) {
  NERF_ASSIGN_OR_RETURN(std::string sha256, Sha256OfFile(path));
  struct stat file_stat;
  if (stat(path.c_str(), &file_stat) != 0) return ErrnoToStatus(errno, "stat " + path);
  v1::BlobRef blob;
  blob.set_sha256(std::move(sha256));
  blob.set_size_bytes(static_cast<double>(file_stat.st_size));
  return blob;
}

v1::BlobRef BlobOfBytes(std::string_view bytes) {
  v1::BlobRef blob;
  blob.set_sha256(Sha256Hex(bytes));
  blob.set_size_bytes(static_cast<double>(bytes.size()));
  return blob;
}

std::string BlobResourceName(const v1::BlobRef& blob) {
  return fmt::format("blobs/{}/{:.0f}", blob.sha256(), blob.size_bytes());
}

absl::Status CheckBlobRef(std::string_view field, const v1::BlobRef& blob) {
  Problems problems;
  if (!IsSha256Hex(blob.sha256())) {
    problems.Add(fmt::format("{}.sha256", field), "must be 64 lower-case hexadecimal characters");
  }
  // The comparison is false for NaN.
  if (!(blob.size_bytes() >= 0 && blob.size_bytes() <= kMaxBlobBytes) ||
      blob.size_bytes() != std::floor(blob.size_bytes())) {
    problems.Add(fmt::format("{}.size_bytes", field), "must be a whole number from 0 to 2^53");
  }
  return problems.Result();
}

}  // namespace nerf
