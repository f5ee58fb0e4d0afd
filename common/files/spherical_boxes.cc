#include "common/files/spherical_boxes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files/atomic_file.h"
#include "common/files/file_io.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

constexpr uint64_t kMaxIndexBytes = uint64_t{64} << 20;
constexpr size_t kCopyBytes = size_t{4} << 20;
constexpr size_t kSampleEntryBytes = 86;  // of a VisualSampleEntry, before its own boxes

uint64_t BigEndian(std::string_view bytes) {
  uint64_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<uint8_t>(byte);
  return number;
}

std::string BigEndianBytes(uint64_t number, int n) {
  std::string bytes(static_cast<size_t>(n), '\0');
  for (int i = n - 1; i >= 0; --i, number >>= 8)
    bytes[static_cast<size_t>(i)] = static_cast<char>(number & 255);
  return bytes;
}

std::string BoxOf(std::string_view type, const std::string& content) {
  return BigEndianBytes(content.size() + 8, 4) + std::string(type) + content;
}

std::string SphericalBoxes(StereoBox stereo) {
  const std::string version(4, '\0');
  const std::string header = BoxOf("svhd", version + "nerfd" + '\0');
  const std::string pose = BoxOf("prhd", version + std::string(12, '\0'));
  const std::string bounds = BoxOf("equi", version + std::string(16, '\0'));
  return BoxOf("st3d", version + static_cast<char>(stereo)) +
         BoxOf("sv3d", header + BoxOf("proj", pose + bounds));
}

// A box at the beginning of `bytes`; nullopt where there is none that fits.
struct Box {
  std::string_view type, content, rest;
};
std::optional<Box> FirstBox(std::string_view bytes) {
  if (bytes.size() < 8) return std::nullopt;
  const uint64_t size = BigEndian(bytes.substr(0, 4));
  if (size < 8 || size > bytes.size()) return std::nullopt;
  return Box{bytes.substr(4, 4), bytes.substr(8, size - 8), bytes.substr(size)};
}

// The boxes with `added` in every video's sample entry, and with offsets of samples grown by
// `shift`. nullopt for a damaged list of boxes.
class IndexEditor {
 public:
  IndexEditor(std::string added, uint64_t shift) : added_(std::move(added)), shift_(shift) {}

  std::optional<std::string> Edit(std::string_view boxes) {
    std::string edited;
    while (!boxes.empty()) {
      const std::optional<Box> box = FirstBox(boxes);
      if (!box.has_value()) return std::nullopt;
      const std::optional<std::string> content = EditBox(*box);
      if (!content.has_value()) return std::nullopt;
      edited += BoxOf(box->type, *content);
      boxes = box->rest;
    }
    return edited;
  }
  int n_videos() const { return n_videos_; }

 private:
  std::optional<std::string> EditBox(const Box& box) {
    for (const std::string_view outer : {"moov", "trak", "mdia", "minf", "stbl"})
      if (box.type == outer) return Edit(box.content);
    if (box.type == "stsd") return EditEntries(box.content);
    if (box.type == "stco") return Shifted(box.content, 4);
    if (box.type == "co64") return Shifted(box.content, 8);
    return std::string(box.content);
  }

  std::optional<std::string> EditEntries(std::string_view content) {
    if (content.size() < 8) return std::nullopt;
    std::string edited(content.substr(0, 8));
    for (std::string_view entries = content.substr(8); !entries.empty();) {
      const std::optional<Box> entry = FirstBox(entries);
      if (!entry.has_value() || entry->content.size() + 8 < kSampleEntryBytes) return std::nullopt;
      edited += BoxOf(entry->type, std::string(entry->content) + added_);
      entries = entry->rest;
      ++n_videos_;
    }
    return edited;
  }

  std::optional<std::string> Shifted(std::string_view content, size_t n_bytes) const {
    if (content.size() < 8 || (content.size() - 8) % n_bytes != 0) return std::nullopt;
    std::string shifted(content.substr(0, 8));
    for (size_t at = 8; at < content.size(); at += n_bytes) {
      const uint64_t offset = BigEndian(content.substr(at, n_bytes)) + shift_;
      if (n_bytes == 4 && offset > UINT32_MAX) return std::nullopt;
      shifted += BigEndianBytes(offset, static_cast<int>(n_bytes));
    }
    return shifted;
  }

  const std::string added_;
  const uint64_t shift_;
  int n_videos_ = 0;
};

absl::StatusOr<std::string> ReadPart(int fd, uint64_t offset, size_t size,
                                     const std::string& path) {
  std::string bytes(size, '\0');
  size_t n = 0;
  while (n < size) {
    const ssize_t got = pread(fd, bytes.data() + n, size - n, static_cast<off_t>(offset + n));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoToStatus(errno, "read " + path);
    if (got == 0) break;
    n += static_cast<size_t>(got);
  }
  bytes.resize(n);
  return bytes;
}

// Where the index is, box and all, and whether samples lie behind it.
struct IndexPlace {
  uint64_t offset = 0, size = 0;
  bool in_front = false;
};
absl::StatusOr<IndexPlace> FindIndex(int fd, uint64_t file_bytes, const std::string& path) {
  IndexPlace place;
  bool has_samples = false;
  for (uint64_t at = 0; at < file_bytes;) {
    NERF_ASSIGN_OR_RETURN(const std::string head, ReadPart(fd, at, 16, path));
    if (head.size() < 8) break;
    uint64_t size = BigEndian(std::string_view(head).substr(0, 4));
    if (size == 1 && head.size() == 16) size = BigEndian(std::string_view(head).substr(8, 8));
    if (size == 0) size = file_bytes - at;
    if (size < 8 || size > file_bytes - at) break;
    const std::string type = head.substr(4, 4);
    if (type == "moov") place = {at, size, !has_samples};
    has_samples |= type == "mdat";
    at += size;
  }
  if (place.size == 0 || place.size > kMaxIndexBytes)
    return absl::InvalidArgumentError(path + ": has no index of a movie");
  return place;
}

}  // namespace

absl::Status AddSphericalBoxes(const std::string& path, StereoBox stereo) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) return ErrnoToStatus(errno, "open " + path);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrnoToStatus(errno, "read " + path);
  const auto file_bytes = static_cast<uint64_t>(info.st_size);
  NERF_ASSIGN_OR_RETURN(const IndexPlace place, FindIndex(fd.get(), file_bytes, path));
  NERF_ASSIGN_OR_RETURN(const std::string index,
                        ReadPart(fd.get(), place.offset, place.size, path));
  const std::string added = SphericalBoxes(stereo);
  // Once to count the entries, whose boxes shift the samples.
  IndexEditor counter(added, 0);
  const bool is_whole = counter.Edit(index).has_value();
  IndexEditor editor(added, place.in_front ? counter.n_videos() * added.size() : 0);
  const std::optional<std::string> edited = is_whole ? editor.Edit(index) : std::nullopt;
  if (!edited.has_value() || editor.n_videos() == 0)
    return absl::InvalidArgumentError(path + ": has no video that can be marked as a panorama");
  NERF_ASSIGN_OR_RETURN(AtomicFile out, AtomicFile::Create(path));
  const uint64_t behind = place.offset + place.size;
  for (uint64_t at = 0; at < file_bytes;) {
    if (at == place.offset) {
      NERF_RETURN_IF_ERROR(out.Append(*edited));
      at = behind;
      continue;
    }
    const uint64_t end = at < place.offset ? place.offset : file_bytes;
    const size_t n = static_cast<size_t>(std::min<uint64_t>(kCopyBytes, end - at));
    NERF_ASSIGN_OR_RETURN(const std::string part, ReadPart(fd.get(), at, n, path));
    if (part.size() != n) return absl::InvalidArgumentError(path + ": became shorter");
    NERF_RETURN_IF_ERROR(out.Append(part));
    at += n;
  }
  return out.Commit();
}

}  // namespace nerf
