#include "engine/scene/pictures/exif.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

namespace nerf {
namespace {

constexpr std::string_view kSignature("Exif\0\0", 6);
constexpr int kMaxEntries = 512;
constexpr size_t kEntryBytes = 12;
constexpr size_t kMaxText = 64;

constexpr int kMake = 0x010f, kModel = 0x0110, kOrientation = 0x0112, kExifFolder = 0x8769;
constexpr int kFocalLength = 0x920a, kFocalLength35 = 0xa405, kLensModel = 0xa434;
constexpr int kText = 2, kShort = 3, kRational = 5;  // types of values

// Bounds-checked reads from the TIFF structure inside an EXIF block, in its own byte order. Numbers
// beyond its end are 0.
class Tiff {
 public:
  explicit Tiff(std::string_view bytes) : bytes_(bytes) {
    is_big_ = bytes.substr(0, 2) == "MM";
    is_valid_ = (is_big_ || bytes.substr(0, 2) == "II") && U16(2) == 42;
  }

  bool is_valid() const { return is_valid_; }
  size_t size() const { return bytes_.size(); }

  uint32_t U16(uint64_t at) const { return Number(at, 2); }
  uint32_t U32(uint64_t at) const { return Number(at, 4); }

  // Calls entry(offset of the entry, tag, type, count) for the entries of the folder at `folder`.
  template <typename Entry>
  void ForEachEntry(uint64_t folder, const Entry& entry) const {
    if (folder < 8 || folder + 2 > bytes_.size()) return;
    const int n = static_cast<int>(std::min<uint32_t>(U16(folder), kMaxEntries));
    for (int i = 0; i < n; ++i) {
      const uint64_t at = folder + 2 + kEntryBytes * static_cast<uint64_t>(i);
      if (at + kEntryBytes > bytes_.size()) return;
      entry(at, static_cast<int>(U16(at)), static_cast<int>(U16(at + 2)), U32(at + 4));
    }
  }

  std::string Text(uint64_t entry, uint32_t count) const {
    const uint64_t at = count <= 4 ? entry + 8 : U32(entry + 8);
    if (at >= bytes_.size()) return "";
    std::string_view text = bytes_.substr(at, std::min<size_t>(count, kMaxText));
    text = text.substr(0, text.find('\0'));
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    std::string printable(text);
    for (char& c : printable) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    }
    return printable;
  }

  std::optional<double> Rational(uint64_t entry) const {
    const uint64_t at = U32(entry + 8);
    if (at + 8 > bytes_.size()) return std::nullopt;
    const double value = static_cast<double>(U32(at)) / static_cast<double>(U32(at + 4));
    if (!std::isfinite(value) || value <= 0) return std::nullopt;
    return value;
  }

 private:
  uint32_t Number(uint64_t at, int n_bytes) const {
    if (at + static_cast<uint64_t>(n_bytes) > bytes_.size()) return 0;
    uint32_t number = 0;
    for (int i = 0; i < n_bytes; ++i) {
      const int place = is_big_ ? i : n_bytes - 1 - i;
      number = (number << 8) | static_cast<unsigned char>(bytes_[at + static_cast<size_t>(place)]);
    }
    return number;
  }

  std::string_view bytes_;
  bool is_big_ = false, is_valid_ = false;
};

}  // namespace

std::string_view FindExif(std::string_view jpeg) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(jpeg[at]); };
  if (jpeg.size() < 4 || byte(0) != 0xff || byte(1) != 0xd8) return {};
  for (size_t at = 2; at + 4 <= jpeg.size();) {
    if (byte(at) != 0xff) return {};
    const int marker = byte(at + 1);
    if (marker == 0xff) {  // a fill byte
      ++at;
      continue;
    }
    if (marker == 0xd9 || marker == 0xda) return {};  // the pixels begin
    if (marker == 0x01 || (marker >= 0xd0 && marker <= 0xd7)) {
      at += 2;
      continue;
    }
    const size_t length = static_cast<size_t>(byte(at + 2)) << 8 | byte(at + 3);
    if (length < 2 || at + 2 + length > jpeg.size()) return {};
    const std::string_view content = jpeg.substr(at + 4, length - 2);
    if (marker == 0xe1 && content.substr(0, kSignature.size()) == kSignature) return content;
    at += 2 + length;
  }
  return {};
}

std::string_view FindExifAnywhere(std::string_view file) {
  constexpr size_t kMostOfBlock = 65533;  // of a JPEG's segment
  for (const std::string_view order :
       {std::string_view("Exif\0\0II*\0", 10), std::string_view("Exif\0\0MM\0*", 10)}) {
    const size_t at = file.find(order);
    if (at != std::string_view::npos) return file.substr(at, kMostOfBlock);
  }
  return "";
}

ExifTags ParseExif(std::string_view exif) {
  ExifTags tags;
  if (exif.substr(0, kSignature.size()) != kSignature) return tags;
  const Tiff tiff(exif.substr(kSignature.size()));
  if (!tiff.is_valid()) return tags;
  uint64_t exif_folder = 0;
  const auto take = [&](uint64_t entry, int tag, int type, uint32_t count) {
    if (tag == kOrientation && type == kShort) {
      const uint32_t orientation = tiff.U16(entry + 8);
      if (orientation >= 1 && orientation <= 8) tags.orientation = static_cast<int>(orientation);
    } else if (tag == kMake && type == kText) {
      tags.make = tiff.Text(entry, count);
    } else if (tag == kModel && type == kText) {
      tags.model = tiff.Text(entry, count);
    } else if (tag == kLensModel && type == kText) {
      tags.lens = tiff.Text(entry, count);
    } else if (tag == kFocalLength && type == kRational) {
      tags.focal_length_mm = tiff.Rational(entry);
    } else if (tag == kFocalLength35 && type == kShort && tiff.U16(entry + 8) > 0) {
      tags.focal_length_35mm = tiff.U16(entry + 8);
    } else if (tag == kExifFolder) {
      exif_folder = tiff.U32(entry + 8);
    }
  };
  tiff.ForEachEntry(tiff.U32(4), take);
  const uint64_t nested = std::exchange(exif_folder, 0);
  if (nested != 0)
    tiff.ForEachEntry(nested, take);  // only one level, so a folder that names itself does no harm
  return tags;
}

std::string WithoutOrientation(std::string_view exif) {
  std::string result(exif);
  if (exif.substr(0, kSignature.size()) != kSignature) return result;
  if (!Tiff(exif.substr(kSignature.size())).is_valid()) return result;
  // False if the folder has no orientation. Each pass reads what the one before left.
  const auto take_off = [&] {
    const Tiff tiff(std::string_view(result).substr(kSignature.size()));
    const uint64_t folder = tiff.U32(4);
    uint64_t found = 0;
    tiff.ForEachEntry(folder, [&](uint64_t entry, int tag, int, uint32_t) {
      if (tag == kOrientation && found == 0) found = entry;
    });
    if (found == 0) return false;
    // The entries behind it and the offset of the next folder move up by one entry.
    const size_t base = kSignature.size();
    const uint64_t n = tiff.U16(folder);
    const uint64_t end = std::min<uint64_t>(folder + 2 + kEntryBytes * n + 4, tiff.size());
    std::copy(result.begin() + static_cast<int64_t>(base + found + kEntryBytes),
              result.begin() + static_cast<int64_t>(base + end),
              result.begin() + static_cast<int64_t>(base + found));
    std::fill(result.begin() + static_cast<int64_t>(base + end - kEntryBytes),
              result.begin() + static_cast<int64_t>(base + end), '\0');
    const uint64_t left = n - 1;
    const bool is_big = result.compare(base, 2, "MM") == 0;
    result[base + folder] = static_cast<char>(is_big ? left >> 8 : left & 0xff);
    result[base + folder + 1] = static_cast<char>(is_big ? left & 0xff : left >> 8);
    return true;
  };
  for (int i = 0; i < kMaxEntries && take_off(); ++i) continue;
  return result;
}

std::string WithExif(std::string_view jpeg, std::string_view exif) {
  std::string result(jpeg.substr(0, 2));
  constexpr size_t kMaxContent = 0xffff - 2;
  if (!exif.empty() && exif.size() <= kMaxContent) {
    const size_t length = exif.size() + 2;
    result += '\xff';
    result += '\xe1';
    result += static_cast<char>(length >> 8);
    result += static_cast<char>(length & 0xff);
    result += exif;
  }
  result += jpeg.substr(2);
  return result;
}

ImageU8 Upright(const ImageU8& image, int orientation) {
  if (orientation <= 1 || orientation > 8) return image;
  const bool is_turned = orientation >= 5;  // by 90 or 270 degrees: sides change places
  ImageU8 upright;
  upright.width = is_turned ? image.height : image.width;
  upright.height = is_turned ? image.width : image.height;
  upright.n_channels = image.n_channels;
  upright.pixels.resize(image.pixels.size());
  // From which side row 0 and column 0 of the stored picture are seen.
  const bool flip_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool flip_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  uint8_t* out = upright.pixels.data();
  for (int y = 0; y < upright.height; ++y) {
    for (int x = 0; x < upright.width; ++x) {
      int from_x = is_turned ? y : x, from_y = is_turned ? x : y;
      if (flip_x) from_x = image.width - 1 - from_x;
      if (flip_y) from_y = image.height - 1 - from_y;
      const uint8_t* in = image.Pixel(from_x, from_y);
      for (int c = 0; c < image.n_channels; ++c) *out++ = in[c];
    }
  }
  return upright;
}

}  // namespace nerf
