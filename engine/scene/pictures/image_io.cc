#include "engine/scene/pictures/image_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/files/atomic_file.h"
#include "common/status_macros.h"
#include "engine/scene/files/foreign_file.h"
#include "engine/scene/files/scene_files.h"
#include "engine/scene/pictures/image_codecs.h"
#include "engine/scene/pictures/phone_picture_header.h"

namespace nerf {
namespace {

PictureDecoder heif_decoder = nullptr, webp_decoder = nullptr;

constexpr unsigned char kPngSignature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
// Chunks or segments before the pixels. Photographs have a few dozen, more if they contain a large
// preview.
constexpr int kMaxHeaderParts = 4096;

uint32_t BigEndian32(const unsigned char* bytes) {
  return (uint32_t{bytes[0]} << 24) | (uint32_t{bytes[1]} << 16) | (uint32_t{bytes[2]} << 8) |
         bytes[3];
}

int BigEndian16(const unsigned char* bytes) { return (bytes[0] << 8) | bytes[1]; }

absl::StatusOr<ImageHeader> ParsePngHeader(const ReadImageAt& read_at) {
  const absl::Status cut_off = absl::InvalidArgumentError("PNG ends before its pixels");
  // Signature, length and type of IHDR, its 13 bytes.
  unsigned char head[29];
  if (read_at(0, head, sizeof(head)) != sizeof(head)) return cut_off;
  if (std::memcmp(head + 12, "IHDR", 4) != 0 || BigEndian32(head + 8) != 13) {
    return absl::InvalidArgumentError("PNG does not start with an IHDR chunk of 13 bytes");
  }
  const uint32_t width = BigEndian32(head + 16), height = BigEndian32(head + 20);
  const int bit_depth = head[24], color_type = head[25];
  if (width == 0 || height == 0) {
    return absl::InvalidArgumentError(absl::StrCat("PNG of ", width, "x", height, " pixels"));
  }
  if (width > 0x7fffffffu || height > 0x7fffffffu) {
    return absl::InvalidArgumentError("PNG size exceeds the format's 2^31 - 1");
  }
  const bool has_known_depth =
      bit_depth == 8 || bit_depth == 16 || bit_depth == 1 || bit_depth == 2 || bit_depth == 4;
  const bool has_known_type =
      color_type == 0 || color_type == 2 || color_type == 3 || color_type == 4 || color_type == 6;
  if (!has_known_depth || !has_known_type) {
    return absl::InvalidArgumentError(
        absl::StrCat("PNG of unknown kind: bit depth ", bit_depth, ", color type ", color_type));
  }
  ImageHeader header;
  header.format = ImageFormat::kPng;
  header.width = static_cast<int>(width);
  header.height = static_cast<int>(height);
  header.n_channels = (color_type & 4) != 0 ? 4 : 3;

  // A tRNS chunk, which comes before the first IDAT, adds an alpha channel to the other types.
  uint64_t offset = 33;
  for (int part = 0; part < kMaxHeaderParts; ++part) {
    unsigned char chunk[8];
    if (read_at(offset, chunk, sizeof(chunk)) != sizeof(chunk)) return cut_off;
    if (std::memcmp(chunk + 4, "IDAT", 4) == 0) return header;
    if (std::memcmp(chunk + 4, "IEND", 4) == 0) return cut_off;
    if (std::memcmp(chunk + 4, "tRNS", 4) == 0) header.n_channels = 4;
    offset += 12 + uint64_t{BigEndian32(chunk)};
  }
  return absl::InvalidArgumentError("PNG has too many chunks before its pixels");
}

absl::StatusOr<ImageHeader> ParseJpegHeader(const ReadImageAt& read_at) {
  const absl::Status cut_off = absl::InvalidArgumentError("JPEG ends before its frame header");
  uint64_t offset = 2;
  for (int part = 0; part < kMaxHeaderParts; ++part) {
    unsigned char segment[4];
    if (read_at(offset, segment, sizeof(segment)) != sizeof(segment)) return cut_off;
    if (segment[0] != 0xff) {
      return absl::InvalidArgumentError(
          absl::StrCat("JPEG is damaged: no marker at byte ", offset));
    }
    const int marker = segment[1];
    if (marker == 0xff) {  // a fill byte
      ++offset;
      continue;
    }
    if (marker == 0x01 || (marker >= 0xd0 && marker <= 0xd7)) {  // markers without a segment
      offset += 2;
      continue;
    }
    if (marker == 0xd9 || marker == 0xda) {
      return absl::InvalidArgumentError("JPEG has no frame header before its pixels");
    }
    const bool is_frame =
        marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
    if (is_frame) {
      unsigned char frame[6];
      if (read_at(offset + 4, frame, sizeof(frame)) != sizeof(frame)) return cut_off;
      const int precision = frame[0], n_components = frame[5];
      if (precision != 8) {
        return absl::InvalidArgumentError(
            absl::StrCat("JPEG of ", precision, " bits a channel; only 8 are read"));
      }
      if (marker == 0xc3 || (marker >= 0xc5 && marker <= 0xc7) || marker >= 0xcb) {
        return absl::InvalidArgumentError("lossless or hierarchical JPEG is not read");
      }
      if (n_components != 1 && n_components != 3 && n_components != 4) {
        return absl::InvalidArgumentError(
            absl::StrCat("JPEG has ", n_components, " channels; 1, 3 or 4 are read"));
      }
      ImageHeader header;
      header.format = ImageFormat::kJpeg;
      header.height = BigEndian16(frame + 1);
      header.width = BigEndian16(frame + 3);
      header.n_channels = 3;
      if (header.width == 0 || header.height == 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("JPEG of ", header.width, "x", header.height, " pixels"));
      }
      return header;
    }
    const int length = BigEndian16(segment + 2);
    if (length < 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("JPEG is damaged: segment of ", length, " bytes at byte ", offset));
    }
    offset += 2 + static_cast<uint64_t>(length);
  }
  return absl::InvalidArgumentError("JPEG has too many segments before its pixels");
}

absl::StatusOr<ImageHeader> ParseHeader(const ReadImageAt& read_at) {
  char magic[12];
  const std::string_view beginning(magic, read_at(0, magic, sizeof(magic)));
  if (beginning.empty()) return absl::InvalidArgumentError("file is empty");
  if (beginning.size() >= sizeof(kPngSignature) &&
      std::memcmp(magic, kPngSignature, sizeof(kPngSignature)) == 0) {
    return ParsePngHeader(read_at);
  }
  if (beginning.substr(0, 3) == "\xff\xd8\xff") return ParseJpegHeader(read_at);
  if (IsHeif(beginning)) return ParseHeifHeader(read_at);
  if (IsWebp(beginning)) return ParseWebpHeader(read_at);
  const std::string kind = ForeignFileKind(beginning);
  // The other kinds say themselves what to do.
  const bool is_picture = !kind.empty() && kind.find_first_of(",:") == std::string::npos;
  return absl::InvalidArgumentError(absl::StrCat("neither PNG nor JPEG (by its first bytes)",
                                                 kind.empty() ? "" : " but ", kind,
                                                 is_picture ? ": save it as PNG or JPEG" : ""));
}

absl::Status CheckPixels(int width, int height, int n_channels, uint64_t n_values) {
  if (width <= 0 || height <= 0 ||
      uint64_t{static_cast<unsigned>(width)} * static_cast<unsigned>(height) *
              static_cast<unsigned>(n_channels) !=
          n_values) {
    return absl::InvalidArgumentError(absl::StrCat("cannot encode ", width, "x", height, "x",
                                                   n_channels, " from ", n_values, " values"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ImageHeader> ParseImageHeader(std::string_view bytes) {
  return ParseHeader([bytes](uint64_t offset, void* out, size_t size) -> size_t {
    if (offset >= bytes.size()) return 0;
    const size_t n = std::min<size_t>(size, bytes.size() - offset);
    std::memcpy(out, bytes.data() + offset, n);
    return n;
  });
}

absl::StatusOr<ImageHeader> ReadImageHeader(const std::string& path) {
  absl::StatusOr<UniqueFd> file = OpenRegularFile(path);
  if (!file.ok()) return WithPrefix(file.status(), path);
  absl::StatusOr<ImageHeader> header =
      ParseHeader([&file](uint64_t offset, void* out, size_t size) -> size_t {
        const ssize_t n = pread(file->get(), out, size, static_cast<off_t>(offset));
        return n < 0 ? 0 : static_cast<size_t>(n);
      });
  if (!header.ok()) return WithPrefix(header.status(), path);
  return header;
}

absl::Status CheckImageLimits(const ImageHeader& header, const ImageLimits& limits) {
  if (header.width > limits.max_side || header.height > limits.max_side) {
    return absl::InvalidArgumentError(absl::StrCat("image of ", header.width, "x", header.height,
                                                   " pixels; at most ", limits.max_side,
                                                   " a side are read"));
  }
  const int64_t n_pixels = int64_t{header.width} * header.height;
  if (n_pixels > limits.max_pixels) {
    return absl::InvalidArgumentError(absl::StrCat("image of ", header.width, "x", header.height,
                                                   " = ", n_pixels, " pixels; at most ",
                                                   limits.max_pixels, " are read"));
  }
  return absl::OkStatus();
}

bool CanDecode(ImageFormat format) {
  if (format == ImageFormat::kHeif) return heif_decoder != nullptr;
  if (format == ImageFormat::kWebp) return webp_decoder != nullptr;
  return true;
}

void SetPictureDecoder(ImageFormat format, PictureDecoder decoder) {
  (format == ImageFormat::kHeif ? heif_decoder : webp_decoder) = decoder;
}

absl::StatusOr<ImageU8> DecodeImageBytes(std::string_view bytes, const ImageLimits& limits) {
  NERF_ASSIGN_OR_RETURN(ImageHeader header, ParseImageHeader(bytes));
  NERF_RETURN_IF_ERROR(CheckImageLimits(header, limits));
  if (!CanDecode(header.format)) {
    return absl::FailedPreconditionError(
        absl::StrCat(header.format == ImageFormat::kHeif ? "HEIC and AVIF are" : "WebP is",
                     " not decoded by this program: save it as JPEG"));
  }
  switch (header.format) {
    case ImageFormat::kPng:
      return DecodePng(bytes, header);
    case ImageFormat::kJpeg:
      return DecodeJpeg(bytes, header);
    case ImageFormat::kHeif:
      return heif_decoder(bytes, header);
    case ImageFormat::kWebp:
      return webp_decoder(bytes, header);
  }
  return absl::InternalError("a picture of no format");
}

absl::StatusOr<ImageU8> DecodeImage(const std::string& path, const ImageLimits& limits) {
  absl::StatusOr<std::string> bytes = ReadRegularFile(path, limits.max_file_bytes);
  if (!bytes.ok()) return WithPrefix(bytes.status(), path);
  absl::StatusOr<ImageU8> image = DecodeImageBytes(*bytes, limits);
  if (!image.ok()) return WithPrefix(image.status(), path);
  return image;
}

absl::StatusOr<std::string> EncodePng(const ImageU8& image, const std::stop_token& stop,
                                      const std::string& xmp) {
  if (image.n_channels != 1 && image.n_channels != 3 && image.n_channels != 4) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot encode ", image.n_channels, " channels as PNG"));
  }
  NERF_RETURN_IF_ERROR(
      CheckPixels(image.width, image.height, image.n_channels, image.pixels.size()));
  return EncodePngRows(image.width, image.height, image.n_channels, /*bit_depth=*/8,
                       image.pixels.data(), stop, xmp);
}

absl::StatusOr<std::string> EncodePng16(int width, int height, std::span<const uint16_t> gray,
                                        const std::stop_token& stop) {
  NERF_RETURN_IF_ERROR(CheckPixels(width, height, 1, gray.size()));
  return EncodePngRows(width, height, /*n_channels=*/1, /*bit_depth=*/16,
                       reinterpret_cast<const uint8_t*>(gray.data()), stop, "");
}

absl::StatusOr<GrayImage16> DecodePng16(std::string_view bytes, const ImageLimits& limits) {
  NERF_ASSIGN_OR_RETURN(const ImageHeader header, ParseImageHeader(bytes));
  NERF_RETURN_IF_ERROR(CheckImageLimits(header, limits));
  if (header.format != ImageFormat::kPng) {
    return absl::InvalidArgumentError("not a 16-bit gray PNG");
  }
  return DecodePngGray16(bytes, header);
}

absl::StatusOr<std::string> EncodeJpeg(const ImageU8& image, int quality, const std::string& xmp) {
  if (image.n_channels != 1 && image.n_channels != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot encode ", image.n_channels, " channels as JPEG"));
  }
  if (quality < 1 || quality > 100) {
    return absl::InvalidArgumentError(absl::StrCat("JPEG quality ", quality, " not in 1..100"));
  }
  NERF_RETURN_IF_ERROR(
      CheckPixels(image.width, image.height, image.n_channels, image.pixels.size()));
  absl::StatusOr<std::string> bytes = EncodeJpegPixels(image, quality);
  if (bytes.ok() && !xmp.empty()) {
    // A segment APP1 behind the start of the image; its length counts itself.
    const std::string content = std::string("http://ns.adobe.com/xap/1.0/") + '\0' + xmp;
    const size_t size = content.size() + 2;
    std::string segment = "\xFF\xE1";
    segment += {static_cast<char>(size >> 8), static_cast<char>(size & 255)};
    bytes->insert(2, segment + content);
  }
  return bytes;
}

absl::Status WritePng(const std::string& path, const ImageU8& image, const std::string& xmp) {
  NERF_ASSIGN_OR_RETURN(std::string bytes, EncodePng(image, {}, xmp));
  return WriteFileAtomically(path, bytes);
}

absl::Status WritePng16(const std::string& path, int width, int height,
                        std::span<const uint16_t> gray) {
  NERF_ASSIGN_OR_RETURN(std::string bytes, EncodePng16(width, height, gray));
  return WriteFileAtomically(path, bytes);
}

}  // namespace nerf
