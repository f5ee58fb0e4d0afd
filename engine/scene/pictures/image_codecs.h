#pragma once

#include <stop_token>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/scene/pictures/image_io.h"

// The format-specific halves of image_io: libpng in png_codec.cc, TurboJPEG in jpeg_codec.cc.
namespace nerf {

// Requires: header is ParseImageHeader(bytes) and within the limits.
absl::StatusOr<ImageU8> DecodePng(std::string_view bytes, const ImageHeader& header);
absl::StatusOr<GrayImage16> DecodePngGray16(std::string_view bytes, const ImageHeader& header);
absl::StatusOr<ImageU8> DecodeJpeg(std::string_view bytes, const ImageHeader& header);

// Decodes a picture. Requires: as DecodePng.
using PictureDecoder = absl::StatusOr<ImageU8> (*)(std::string_view bytes,
                                                   const ImageHeader& header);
// Sets the decoder of kHeif or kWebp. Call it before threads are started.
void SetPictureDecoder(ImageFormat format, PictureDecoder decoder);

// pixels: [height][width][n_channels] of bit_depth 8 or 16 (native byte order); n_channels 1, 3
// or 4. After a stop: Cancelled.
absl::StatusOr<std::string> EncodePngRows(int width, int height, int n_channels, int bit_depth,
                                          const uint8_t* pixels, const std::stop_token& stop,
                                          const std::string& xmp);
absl::StatusOr<std::string> EncodeJpegPixels(const ImageU8& image, int quality);

}  // namespace nerf
