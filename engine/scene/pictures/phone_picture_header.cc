#include "engine/scene/pictures/phone_picture_header.h"

#include <algorithm>
#include <array>
#include <climits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/scene/files/media_boxes.h"

namespace nerf {
namespace {

constexpr uint64_t kMaxMetaBytes = uint64_t{4} << 20;

absl::Status BadHeif(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("HEIF ", std::string(what)));
}

uint64_t LittleEndianOf(std::string_view bytes, size_t at, size_t width) {
  uint64_t value = 0;
  for (size_t i = width; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

// The content of the file's only box `meta`: of several, decoders take another one than readers of
// headers.
absl::StatusOr<std::string> ReadMeta(const ReadImageAt& read_at) {
  std::optional<std::string> found;
  uint64_t offset = 0;
  for (int i = 0; i < kMaxMediaBoxes; ++i) {
    std::array<char, 16> head;
    const size_t n = read_at(offset, head.data(), head.size());
    if (n < 8 && found.has_value()) return *std::move(found);
    if (n < 8) return BadHeif("ends before its header");
    const std::string_view bytes(head.data(), n);
    uint64_t size = BigEndianOf(bytes, 0, 4), begin = 8;
    if (size == 1) {
      if (n < 16) return BadHeif("ends before its header");
      size = BigEndianOf(bytes, 8, 8);
      begin = 16;
    }
    if (size == 0 && found.has_value()) return *std::move(found);  // the last box
    if (size < begin || size > uint64_t{1} << 40) return BadHeif("has a box of no valid size");
    if (bytes.substr(4, 4) == "meta") {
      if (found.has_value()) return BadHeif("has two headers");
      if (size > kMaxMetaBytes) return BadHeif("has a header that is too large");
      found.emplace(size - begin, '\0');
      if (read_at(offset + begin, found->data(), found->size()) != found->size())
        return BadHeif("ends within its header");
    }
    offset += size;
  }
  return BadHeif("has too many boxes");
}

bool IsAlpha(const MediaBox& property) {
  return property.type == "auxC" && (property.content.find("auxid:1") != std::string_view::npos ||
                                     property.content.find(":alpha") != std::string_view::npos);
}

// Applies a property to the size: stated, cropped or turned.
void ApplyToSize(const MediaBox& property, uint64_t* width, uint64_t* height) {
  const std::string_view content = property.content;
  if (property.type == "ispe" && content.size() >= 12) {
    *width = BigEndianOf(content, 4, 4);
    *height = BigEndianOf(content, 8, 4);
  } else if (property.type == "clap" && content.size() >= 32) {
    const uint64_t over[2] = {BigEndianOf(content, 4, 4), BigEndianOf(content, 12, 4)};
    if (over[0] > 0) *width = BigEndianOf(content, 0, 4) / over[0];
    if (over[1] > 0) *height = BigEndianOf(content, 8, 4) / over[1];
  } else if (property.type == "irot" && !content.empty() && (content[0] & 1) != 0) {
    std::swap(*width, *height);
  }
}

}  // namespace

bool IsHeif(std::string_view beginning) {
  if (beginning.size() < 12 || beginning.substr(4, 4) != "ftyp") return false;
  const std::string_view brand = beginning.substr(8, 4);
  for (const std::string_view known :
       {"heic", "heix", "heim", "heis", "mif1", "mif2", "avif", "hevc", "hevx", "msf1", "avis"}) {
    if (brand == known) return true;
  }
  return false;
}

bool IsWebp(std::string_view beginning) {
  return beginning.size() >= 12 && beginning.substr(0, 4) == "RIFF" &&
         beginning.substr(8, 4) == "WEBP";
}

absl::StatusOr<ImageHeader> ParseHeifHeader(const ReadImageAt& read_at) {
  const absl::StatusOr<std::string> meta = ReadMeta(read_at);
  if (!meta.ok()) return meta.status();
  if (meta->size() < 4) return BadHeif("has a damaged header");
  const auto boxes = MediaBoxesIn(std::string_view(*meta).substr(4));
  if (!boxes) return BadHeif("has a damaged header");
  const std::optional<uint64_t> item = PrimaryItem(ContentOf(*boxes, "pitm"));
  const auto described = MediaBoxesIn(ContentOf(*boxes, "iprp"));
  if (!item || !described) return BadHeif("has no picture");
  const auto all = MediaBoxesIn(ContentOf(*described, "ipco"));
  const auto numbers = PropertiesOfItem(*item, ContentOf(*described, "ipma"));
  if (!all || !numbers) return BadHeif("has a damaged header");
  uint64_t width = 0, height = 0;
  for (const size_t number : *numbers) {
    if (number > all->size()) return BadHeif("has a damaged header");
    if (number > 0) ApplyToSize((*all)[number - 1], &width, &height);
  }
  if (width == 0 || height == 0 || width > INT_MAX || height > INT_MAX) {
    return BadHeif(absl::StrCat("of ", width, "x", height, " pixels"));
  }
  ImageHeader header;
  header.format = ImageFormat::kHeif;
  header.width = static_cast<int>(width);
  header.height = static_cast<int>(height);
  header.n_channels = std::any_of(all->begin(), all->end(), IsAlpha) ? 4 : 3;
  return header;
}

absl::StatusOr<ImageHeader> ParseWebpHeader(const ReadImageAt& read_at) {
  constexpr int kAlpha = 0x10, kAnimation = 0x02;  // flags of VP8X
  std::array<char, 30> head;
  const size_t n = read_at(0, head.data(), head.size());
  const std::string_view bytes(head.data(), n);
  if (n < head.size()) return absl::InvalidArgumentError("WebP ends before its pixels");
  const std::string_view kind = bytes.substr(12, 4);
  ImageHeader header;
  header.format = ImageFormat::kWebp;
  header.n_channels = 3;
  if (kind == "VP8 ") {
    if (bytes.substr(23, 3) != "\x9d\x01\x2a")
      return absl::InvalidArgumentError("WebP has no frame header");
    header.width = static_cast<int>(LittleEndianOf(bytes, 26, 2) & 0x3fff);
    header.height = static_cast<int>(LittleEndianOf(bytes, 28, 2) & 0x3fff);
  } else if (kind == "VP8L") {
    if (bytes[20] != '\x2f') return absl::InvalidArgumentError("WebP has no frame header");
    const uint64_t packed = LittleEndianOf(bytes, 21, 4);
    header.width = static_cast<int>(packed & 0x3fff) + 1;
    header.height = static_cast<int>(packed >> 14 & 0x3fff) + 1;
    if ((packed >> 28 & 1) != 0) header.n_channels = 4;
  } else if (kind == "VP8X") {
    if ((bytes[20] & kAnimation) != 0)
      return absl::InvalidArgumentError("WebP is a film; pictures are read");
    if ((bytes[20] & kAlpha) != 0) header.n_channels = 4;
    header.width = static_cast<int>(LittleEndianOf(bytes, 24, 3)) + 1;
    header.height = static_cast<int>(LittleEndianOf(bytes, 27, 3)) + 1;
  } else {
    return absl::InvalidArgumentError("WebP of an unknown kind");
  }
  if (header.width == 0 || header.height == 0)
    return absl::InvalidArgumentError("WebP without pixels");
  return header;
}

}  // namespace nerf
