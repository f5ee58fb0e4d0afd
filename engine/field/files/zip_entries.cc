#include "engine/field/files/zip_entries.h"

#include <cstdint>

#include "fmt/format.h"

namespace nerf {
namespace {

// Records and the places of their fields: PKWARE's APPNOTE.TXT, sections 4.3.7, 4.3.12 and 4.3.16.
constexpr std::string_view kEndRecord = "PK\x05\x06";
constexpr std::string_view kDirectoryRecord = "PK\x01\x02";
constexpr std::string_view kFileRecord = "PK\x03\x04";
constexpr size_t kEndBytes = 22, kDirectoryBytes = 46, kFileBytes = 30;
constexpr size_t kMaxComment = 65535;
constexpr uint64_t kMaxEntries = 8192;

uint64_t Number(std::string_view bytes, size_t place, int n_bytes) {
  uint64_t number = 0;
  for (int i = 0; i < n_bytes; ++i)
    number |= uint64_t{static_cast<uint8_t>(bytes[place + i])} << (8 * i);
  return number;
}

absl::Status Bad(std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("zip archive: {}", what));
}

bool HasRecord(std::string_view bytes, uint64_t place, std::string_view record, size_t n_bytes) {
  return place <= bytes.size() && bytes.size() - place >= n_bytes &&
         bytes.substr(place, record.size()) == record;
}

}  // namespace

absl::StatusOr<ZipEntries> StoredZipEntries(std::string_view bytes) {
  const size_t end = bytes.rfind(kEndRecord);
  if (end == std::string_view::npos || !HasRecord(bytes, end, kEndRecord, kEndBytes) ||
      bytes.size() - end > kEndBytes + kMaxComment) {
    return Bad("its directory is missing; it may be cut off");
  }
  const uint64_t n_entries = Number(bytes, end + 10, 2);
  if (n_entries > kMaxEntries) return Bad("too many files");
  uint64_t place = Number(bytes, end + 16, 4);
  ZipEntries entries;
  for (uint64_t i = 0; i < n_entries; ++i) {
    if (!HasRecord(bytes, place, kDirectoryRecord, kDirectoryBytes))
      return Bad("its directory is damaged");
    const uint64_t method = Number(bytes, place + 10, 2), size = Number(bytes, place + 20, 4);
    const uint64_t name_size = Number(bytes, place + 28, 2), file = Number(bytes, place + 42, 4);
    const uint64_t rest = Number(bytes, place + 30, 2) + Number(bytes, place + 32, 2);
    if (name_size + rest > bytes.size() - place - kDirectoryBytes)
      return Bad("its directory is damaged");
    if (!HasRecord(bytes, file, kFileRecord, kFileBytes))
      return Bad(fmt::format("file {} is not where the directory has it", i));
    const uint64_t begin =
        file + kFileBytes + Number(bytes, file + 26, 2) + Number(bytes, file + 28, 2);
    if (begin > bytes.size() || size > bytes.size() - begin)
      return Bad(fmt::format("file {} is larger than the archive", i));
    if (method != 0) return Bad(fmt::format("file {} is compressed", i));
    const std::string_view name = bytes.substr(place + kDirectoryBytes, name_size);
    if (!entries.emplace(name, bytes.substr(begin, size)).second)
      return Bad(fmt::format("file {} has the name of another", i));
    place += kDirectoryBytes + name_size + rest;
  }
  return entries;
}

}  // namespace nerf
