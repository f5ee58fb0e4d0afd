#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/scene/pictures/image.h"

namespace nerf {

enum class ImageFormat { kPng, kJpeg, kHeif, kWebp };  // kHeif: HEIC and AVIF

// An image's properties, read from the file's header without decoding pixels.
struct ImageHeader {
  ImageFormat format = ImageFormat::kPng;
  int width = 0;
  int height = 0;
  int n_channels = 3;  // of the decoded image: 4 with alpha or a transparent color, else 3

  uint64_t Pixels() const {
    return uint64_t{static_cast<uint32_t>(width)} * static_cast<uint32_t>(height);
  }
  // Of the decoded image.
  uint64_t DecodedBytes() const { return Pixels() * static_cast<uint32_t>(n_channels); }
  bool operator==(const ImageHeader&) const = default;
};

// Checked against the header before memory for pixels is allocated.
struct ImageLimits {
  int max_side = 16384;
  int64_t max_pixels = 128'000'000;  // a 100-megapixel photograph passes
  uint64_t max_file_bytes = uint64_t{512} << 20;
};

// Reads only the parts of the file that the header needs. Errors: NotFound if the file is missing,
// InvalidArgument if it is neither PNG, JPEG, HEIF nor WebP, ends before its pixels, or is of an
// unsupported kind (12-bit JPEG). Error messages of functions with a path start with the
// path.
absl::StatusOr<ImageHeader> ReadImageHeader(const std::string& path);
absl::StatusOr<ImageHeader> ParseImageHeader(std::string_view bytes);

// InvalidArgument if the header exceeds the limits.
absl::Status CheckImageLimits(const ImageHeader& header, const ImageLimits& limits);

// Whether this program decodes pictures of the format. Only the engine decodes HEIF and WebP
// (engine/scene/phone_pictures).
bool CanDecode(ImageFormat format);

// Decodes a picture to 8-bit RGB, or RGBA with straight alpha if header.n_channels is 4. Gray
// and palette images become RGB, 16 bits are rounded to 8. Color profiles and gamma are ignored,
// and so is EXIF orientation, because poses refer to the unrotated pixels; HEIF pictures are turned
// as their own properties say. Errors as ReadImageHeader, InvalidArgument for damaged or truncated
// pixels, and FailedPrecondition unless CanDecode.
absl::StatusOr<ImageU8> DecodeImage(const std::string& path, const ImageLimits& limits = {});
absl::StatusOr<ImageU8> DecodeImageBytes(std::string_view bytes, const ImageLimits& limits = {});

// 8-bit PNG of 1 (gray), 3 (RGB) or 4 (RGBA) channels. Equal images give equal bytes.
// Requires: pixels.size() == width * height * n_channels, else InvalidArgument. After a stop, which
// is looked at between rows: Cancelled.
// xmp: a packet that is stored with it; empty: none.
absl::StatusOr<std::string> EncodePng(const ImageU8& image, const std::stop_token& stop = {},
                                      const std::string& xmp = "");

// 16-bit gray PNG. gray: [height * width], rows top to bottom. stop: as of EncodePng.
absl::StatusOr<std::string> EncodePng16(int width, int height, std::span<const uint16_t> gray,
                                        const std::stop_token& stop = {});

// Inverse of EncodePng16. Errors: InvalidArgument for any other kind of image, and for a PNG that
// is damaged or exceeds the limits.
absl::StatusOr<GrayImage16> DecodePng16(std::string_view bytes, const ImageLimits& limits = {});

// Baseline JPEG of 1 or 3 channels without chroma subsampling; quality in [1, 100].
absl::StatusOr<std::string> EncodeJpeg(const ImageU8& image, int quality = 90,
                                       const std::string& xmp = "");

// Encodes and atomically replaces `path`.
absl::Status WritePng(const std::string& path, const ImageU8& image, const std::string& xmp = "");
absl::Status WritePng16(const std::string& path, int width, int height,
                        std::span<const uint16_t> gray);

}  // namespace nerf
