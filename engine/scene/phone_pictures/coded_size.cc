#include "engine/scene/phone_pictures/coded_size.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/scene/files/media_boxes.h"

namespace nerf {
namespace {

// Pixels that are decoded beyond twice the stated ones: encoders pad, and tiles overhang.
constexpr double kPaddedPixels = 1 << 20;

absl::Status Damaged(const char* what) {
  return absl::InvalidArgumentError(absl::StrCat("HEIF is damaged: ", what));
}

// Reads numbers of bits, most significant first; zeros beyond the end.
class BitReader {
 public:
  explicit BitReader(std::string_view bytes) : bytes_(bytes) {}

  uint64_t Bits(int n) {
    uint64_t value = 0;
    for (; n > 0; --n, ++at_) {
      const size_t byte = at_ / 8;
      const int bit = byte < bytes_.size() ? bytes_[byte] >> (7 - at_ % 8) & 1 : 0;
      value = value << 1 | static_cast<uint64_t>(bit);
    }
    return value;
  }
  void Skip(size_t n) { at_ += n; }
  // In Exp-Golomb code, as H.265 and AV1 have it.
  uint64_t Golomb() {
    int zeros = 0;
    while (zeros < 32 && at_ < 8 * bytes_.size() && Bits(1) == 0) ++zeros;
    return (uint64_t{1} << zeros) - 1 + Bits(zeros);
  }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
};

// What a stream makes its decoder do.
struct CodedWork {
  double largest = 0;  // pixels of a picture
  double n_pictures = 0;
  double pixels() const { return largest * std::max(n_pictures, 1.0); }
};

void AddHevcUnit(std::string_view unit, CodedWork* work) {
  constexpr int kSequenceParameters = 33, kFirstOtherKind = 32;
  constexpr size_t kProfileBits = 88, kLevelBits = 8;
  if (unit.size() < 3) return;
  const int kind = unit[0] >> 1 & 0x3f;
  if (kind < kFirstOtherKind && (unit[2] & 0x80) != 0) ++work->n_pictures;  // its first slice
  if (kind != kSequenceParameters) return;
  std::string payload;  // without the bytes that keep start codes out
  for (size_t i = 2; i < unit.size(); ++i) {
    const bool is_guard = i >= 4 && unit[i] == 3 && unit[i - 1] == 0 && unit[i - 2] == 0;
    if (!is_guard) payload += unit[i];
  }
  BitReader bits(payload);
  bits.Skip(4);
  const auto n_layers = static_cast<int>(bits.Bits(3));
  bits.Skip(1 + kProfileBits + kLevelBits);
  uint64_t has_profile[8] = {}, has_level[8] = {};
  for (int i = 0; i < n_layers; ++i) has_profile[i] = bits.Bits(1), has_level[i] = bits.Bits(1);
  if (n_layers > 0) bits.Skip(2 * static_cast<size_t>(8 - n_layers));
  for (int i = 0; i < n_layers; ++i)
    bits.Skip(has_profile[i] * kProfileBits + has_level[i] * kLevelBits);
  bits.Golomb();
  if (bits.Golomb() == 3) bits.Skip(1);
  const double width = static_cast<double>(bits.Golomb());
  work->largest = std::max(work->largest, width * static_cast<double>(bits.Golomb()));
}

void AddAv1Sequence(std::string_view payload, CodedWork* work) {
  BitReader bits(payload);
  bits.Skip(4);
  if (bits.Bits(1) != 0) {  // of a still picture, in short
    bits.Skip(5);
  } else {
    size_t delay_bits = 0;
    if (bits.Bits(1) != 0) {
      bits.Skip(64);
      if (bits.Bits(1) != 0) bits.Golomb();
      if (bits.Bits(1) != 0) {
        delay_bits = bits.Bits(5) + 1;
        bits.Skip(42);
      }
    }
    const bool has_display_delay = bits.Bits(1) != 0;
    for (uint64_t n = bits.Bits(5) + 1; n > 0; --n) {
      bits.Skip(12);
      if (bits.Bits(5) > 7) bits.Skip(1);
      if (delay_bits > 0 && bits.Bits(1) != 0) bits.Skip(2 * delay_bits + 1);
      if (has_display_delay && bits.Bits(1) != 0) bits.Skip(4);
    }
  }
  const auto width_bits = static_cast<int>(bits.Bits(4)) + 1;
  const auto height_bits = static_cast<int>(bits.Bits(4)) + 1;
  const double width = static_cast<double>(bits.Bits(width_bits)) + 1;
  work->largest = std::max(work->largest, width * static_cast<double>(bits.Bits(height_bits) + 1));
}

bool AddAv1(std::string_view stream, CodedWork* work) {
  constexpr int kSequence = 1, kFrameHeader = 3, kFrame = 6;
  while (!stream.empty()) {
    const int head = stream[0], kind = head >> 3 & 0xf;
    size_t at = 1 + (head >> 2 & 1);
    uint64_t size = 0;
    if ((head & 2) != 0) {
      for (int i = 0;; ++i, ++at) {
        if (at >= stream.size() || i == 8) return false;
        size |= static_cast<uint64_t>(stream[at] & 0x7f) << (7 * i);
        if ((stream[at] & 0x80) == 0) break;
      }
      ++at;
    } else if (at <= stream.size()) {
      size = stream.size() - at;
    }
    if (at > stream.size() || size > stream.size() - at) return false;
    if (kind == kSequence) AddAv1Sequence(stream.substr(at, size), work);
    work->n_pictures += kind == kFrameHeader || kind == kFrame;
    stream.remove_prefix(at + size);
  }
  return true;
}

// Units behind their lengths, which libheif takes to have 4 bytes.
bool AddHevc(std::string_view stream, CodedWork* work) {
  while (!stream.empty()) {
    if (stream.size() < 4) return false;
    const uint64_t size = BigEndianOf(stream, 0, 4);
    if (size > stream.size() - 4) return false;
    AddHevcUnit(stream.substr(4, size), work);
    stream.remove_prefix(4 + size);
  }
  return true;
}

bool AddHevcConfiguration(std::string_view content, CodedWork* work) {
  size_t at = 23;
  if (content.size() < at) return false;
  for (int arrays = static_cast<unsigned char>(content[22]); arrays > 0; --arrays) {
    if (content.size() < at + 3) return false;
    uint64_t n = BigEndianOf(content, at + 1, 2);
    for (at += 3; n > 0; --n) {
      if (content.size() < at + 2) return false;
      const uint64_t size = BigEndianOf(content, at, 2);
      if (content.size() < at + 2 + size) return false;
      AddHevcUnit(content.substr(at + 2, size), work);
      at += 2 + size;
    }
  }
  return true;
}

// A reader of fields one after the other; is_good falls where they end too early.
struct Fields {
  std::string_view bytes;
  size_t at = 0;
  bool is_good = true;

  uint64_t Next(size_t width) {
    if (!is_good || bytes.size() - at < width) {
      is_good = false;
      return 0;
    }
    at += width;
    return BigEndianOf(bytes, at - width, width);
  }
};

// The items of a file, as far as decoding one of them needs it.
class HeifItems {
 public:
  explicit HeifItems(std::string_view file) : file_(file) {}

  absl::Status Read() {
    const auto top = MediaBoxesIn(file_);
    const std::string_view meta = top ? ContentOf(*top, "meta") : std::string_view();
    const auto boxes = meta.size() < 4 ? std::nullopt : MediaBoxesIn(meta.substr(4));
    if (!boxes) return Damaged("its boxes do not fit");
    const auto described = MediaBoxesIn(ContentOf(*boxes, "iprp"));
    if (!described) return Damaged("its properties");
    // The decoder may take another one than this reader.
    if (IsRepeated(*top, {"meta"}) || IsRepeated(*described, {"ipco", "ipma"}) ||
        IsRepeated(*boxes, {"pitm", "iinf", "iloc", "iprp", "iref", "idat"})) {
      return Damaged("a box is there twice");
    }
    const auto all = MediaBoxesIn(ContentOf(*described, "ipco"));
    primary_ = PrimaryItem(ContentOf(*boxes, "pitm"));
    if (!all || !primary_) return Damaged("its properties");
    properties_ = *all;
    ipma_ = ContentOf(*described, "ipma");
    idat_ = ContentOf(*boxes, "idat");
    if (!ReadKinds(ContentOf(*boxes, "iinf"))) return Damaged("its list of items");
    if (!ReadReferences(ContentOf(*boxes, "iref"))) return Damaged("its references");
    if (!ReadPlaces(ContentOf(*boxes, "iloc"))) return Damaged("where its items are");
    return absl::OkStatus();
  }

  // Pixels that the primary picture, or the one of its companions that takes most, decodes.
  absl::Status AddWork(double* most) const {
    const auto companions = companions_.find(*primary_);
    for (const auto& [item, kind] : kinds_) {
      const bool is_companion =
          companions != companions_.end() && companions->second.contains(item);
      if (item != *primary_ && !is_companion) continue;
      if (is_companion && companions_.contains(item)) return Damaged("a companion of a companion");
      double pixels = 0;
      if (kind == "grid") {
        std::map<uint64_t, double> known;
        const auto tiles = tiles_.find(item);
        if (tiles == tiles_.end()) return Damaged("a grid without tiles");
        for (const uint64_t tile : tiles->second) {
          if (companions_.contains(tile)) return Damaged("a tile with a companion");
          const auto [found, is_new] = known.emplace(tile, 0);
          if (is_new) {
            const absl::Status status = WorkOf(tile, &found->second);
            if (!status.ok()) return status;
          }
          pixels += found->second;
        }
      } else {
        const absl::Status status = WorkOf(item, &pixels);
        if (!status.ok()) return status;
      }
      *most = std::max(*most, pixels);
    }
    return absl::OkStatus();
  }

 private:
  struct Extent {
    bool in_idat;
    uint64_t offset, size;
  };

  // Of a coded picture.
  absl::Status WorkOf(uint64_t item, double* pixels) const {
    const auto kind = kinds_.find(item);
    const bool is_hevc = kind != kinds_.end() && kind->second == "hvc1";
    if (!is_hevc && (kind == kinds_.end() || kind->second != "av01"))
      return absl::InvalidArgumentError("HEIF is no picture of HEVC or AV1, nor a grid of them");
    const auto numbers = PropertiesOfItem(item, ipma_);
    if (!numbers) return Damaged("its properties");
    CodedWork work;
    for (const size_t number : *numbers) {
      if (number == 0 || number > properties_.size()) continue;
      const MediaBox& property = properties_[number - 1];
      bool is_good = true;
      if (property.type == "hvcC" && is_hevc)
        is_good = AddHevcConfiguration(property.content, &work);
      if (property.type == "av1C" && !is_hevc && property.content.size() > 4)
        is_good = AddAv1(property.content.substr(4), &work);
      if (!is_good) return Damaged("a configuration");
    }
    work.n_pictures = 0;
    const std::optional<std::string> stream = StreamOf(item);
    if (!stream || !(is_hevc ? AddHevc(*stream, &work) : AddAv1(*stream, &work)))
      return Damaged("pixels are missing or wrong");
    *pixels = work.pixels();
    return absl::OkStatus();
  }

  // No more than the file has.
  std::optional<std::string> StreamOf(uint64_t item) const {
    const auto places = places_.find(item);
    if (places == places_.end()) return std::nullopt;
    std::string stream;
    for (const Extent& extent : places->second) {
      const std::string_view from = extent.in_idat ? idat_ : file_;
      if (extent.offset > from.size()) return std::nullopt;
      const uint64_t rest = from.size() - extent.offset;
      const uint64_t size = extent.size == 0 ? rest : extent.size;
      if (size > rest || stream.size() + size > file_.size()) return std::nullopt;
      stream += from.substr(extent.offset, size);
    }
    return stream;
  }

  bool ReadKinds(std::string_view iinf) {
    if (iinf.size() < 6) return false;
    const size_t count_width = iinf[0] == 0 ? 2 : 4;
    const auto entries = MediaBoxesIn(iinf.substr(std::min(iinf.size(), 4 + count_width)));
    if (!entries) return false;
    for (const MediaBox& entry : *entries) {
      Fields fields{entry.content};
      const uint64_t version = fields.Next(4) >> 24;
      if (entry.type != "infe" || version < 2) continue;
      const uint64_t item = fields.Next(version == 2 ? 2 : 4);
      fields.Next(2);
      if (!fields.is_good || entry.content.size() < fields.at + 4) return false;
      if (!kinds_.emplace(item, entry.content.substr(fields.at, 4)).second) return false;
    }
    return true;
  }

  bool ReadReferences(std::string_view iref) {
    if (iref.empty()) return true;
    if (iref.size() < 4) return false;
    const size_t width = iref[0] == 0 ? 2 : 4;
    const auto entries = MediaBoxesIn(iref.substr(4));
    if (!entries) return false;
    for (const MediaBox& entry : *entries) {
      Fields fields{entry.content};
      const uint64_t from = fields.Next(width);
      for (uint64_t n = fields.Next(2); n > 0 && fields.is_good; --n) {
        const uint64_t to = fields.Next(width);
        if (entry.type == "dimg") tiles_[from].push_back(to);
        if (entry.type == "auxl") companions_[to].insert(from);
      }
      if (!fields.is_good) return false;
    }
    return true;
  }

  bool ReadPlaces(std::string_view iloc) {
    Fields fields{iloc};
    const uint64_t version = fields.Next(4) >> 24, widths = fields.Next(2);
    const size_t offset_width = widths >> 12, size_width = widths >> 8 & 15;
    const size_t base_width = widths >> 4 & 15, index_width = version > 0 ? widths & 15 : 0;
    if (std::max({offset_width, size_width, base_width, index_width}) > 8) return false;
    const size_t id_width = version < 2 ? 2 : 4;
    for (uint64_t n = fields.Next(id_width); n > 0 && fields.is_good; --n) {
      std::vector<Extent>& places = places_[fields.Next(id_width)];
      const bool in_idat = version > 0 && (fields.Next(2) & 15) == 1;
      fields.Next(2);
      const uint64_t base = fields.Next(base_width);
      for (uint64_t k = fields.Next(2); k > 0 && fields.is_good; --k) {
        fields.Next(index_width);
        const uint64_t offset = base + fields.Next(offset_width);
        places.push_back({in_idat, offset, fields.Next(size_width)});
      }
    }
    return fields.is_good;
  }

  const std::string_view file_;
  std::string_view ipma_, idat_;
  std::optional<uint64_t> primary_;
  std::vector<MediaBox> properties_;
  std::map<uint64_t, std::string_view> kinds_;
  std::map<uint64_t, std::vector<uint64_t>> tiles_;    // of a grid
  std::map<uint64_t, std::set<uint64_t>> companions_;  // such as alpha, by what they belong to
  std::map<uint64_t, std::vector<Extent>> places_;
};

}  // namespace

absl::Status CheckCodedSize(std::string_view heif, const ImageHeader& header) {
  HeifItems items(heif);
  absl::Status status = items.Read();
  double pixels = 0;
  if (status.ok()) status = items.AddWork(&pixels);
  if (!status.ok()) return status;
  const double stated = static_cast<double>(header.width) * header.height;
  if (pixels > 2 * stated + kPaddedPixels) {
    return absl::InvalidArgumentError(absl::StrCat("HEIF of ", header.width, "x", header.height,
                                                   " pixels holds ", static_cast<uint64_t>(pixels),
                                                   " coded ones"));
  }
  return absl::OkStatus();
}

}  // namespace nerf
