#include "server/rpc/convert/blob_resource.h"

#include <charconv>
#include <optional>
#include <utility>

#include "common/error_reason.h"
#include "common/files/sha256.h"
#include "common/ids.h"

namespace nerf {
namespace {

constexpr std::string_view kBlobPrefix = "blobs/";
constexpr std::string_view kUploadPrefix = "uploads/";
constexpr size_t kDigestLength = 64;
constexpr size_t kUuidLength = 36;

absl::Status BadName(const char* form) { return InvalidFieldsError({{"resource_name", form}}); }

// Takes "projects/{p}/" from the beginning of a name. Empty, and nothing taken, without it.
std::string TakeProject(std::string_view* name) {
  constexpr std::string_view kPrefix = "projects/";
  if (!name->starts_with(kPrefix)) return "";
  const std::string_view rest = name->substr(kPrefix.size());
  const size_t slash = rest.find('/');
  if (slash == std::string_view::npos || !IsResourceId(rest.substr(0, slash))) return "";
  *name = rest.substr(slash + 1);
  return std::string(rest.substr(0, slash));
}

std::optional<BlobRef> ParseBlob(std::string_view name) {
  if (!name.starts_with(kBlobPrefix)) return std::nullopt;
  name.remove_prefix(kBlobPrefix.size());
  const std::string_view digest = name.substr(0, kDigestLength);
  if (!IsSha256Hex(digest) || name.size() <= kDigestLength || name[kDigestLength] != '/') {
    return std::nullopt;
  }
  const std::string_view digits = name.substr(kDigestLength + 1);
  if (digits.empty() || (digits.size() > 1 && digits[0] == '0')) return std::nullopt;
  uint64_t size = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return BlobRef{std::string(digest), size};
}

}  // namespace

absl::StatusOr<NamedBlob> ParseBlobName(std::string_view name) {
  NamedBlob named;
  named.project = TakeProject(&name);
  const std::optional<BlobRef> blob = ParseBlob(name);
  if (!blob.has_value()) {
    return BadName("must have the form [projects/{project}/]blobs/{sha256}/{size}");
  }
  named.blob = *blob;
  return named;
}

absl::StatusOr<UploadName> ParseUploadName(std::string_view name) {
  const absl::Status bad =
      BadName("must have the form [projects/{project}/]uploads/{uuid}/blobs/{sha256}/{size}");
  std::string project = TakeProject(&name);
  if (project.empty()) project = "default";
  if (!name.starts_with(kUploadPrefix)) return bad;
  name.remove_prefix(kUploadPrefix.size());
  const std::string_view uuid = name.substr(0, kUuidLength);
  if (!IsUuid4(uuid) || name.size() <= kUuidLength || name[kUuidLength] != '/') return bad;
  const std::optional<BlobRef> blob = ParseBlob(name.substr(kUuidLength + 1));
  if (!blob.has_value()) return bad;
  return UploadName{std::move(project), std::string(uuid), *blob};
}

std::string StoredUploadId(const UploadName& name, bool is_worker) {
  return is_worker ? name.upload_id : name.project + "." + name.upload_id;
}

}  // namespace nerf
