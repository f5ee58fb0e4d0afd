#include <turbojpeg.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/scene/pictures/image_codecs.h"

namespace nerf {
namespace {

struct DestroyCodec {
  void operator()(void* codec) const { tjDestroy(codec); }
};
using Codec = std::unique_ptr<void, DestroyCodec>;

// Some cameras write padding between segments. Every other warning means lost pixels.
bool IsHarmless(tjhandle codec, std::string_view bytes) {
  if (tjGetErrorCode(codec) != TJERR_WARNING) return false;
  if (!absl::StrContains(tjGetErrorStr2(codec), "extraneous bytes")) return false;
  // TurboJPEG reports only the first warning, so check that the end marker is there.
  const size_t end_marker = bytes.rfind("\xff\xd9");
  return end_marker != std::string_view::npos && end_marker >= bytes.size() / 2;
}

// LIMITSCANS: a small progressive file can otherwise ask for thousands of passes.
constexpr int kDecodeFlags = TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS;

// Decodes to `format`, whose pixels have no padding.
bool Decompress(tjhandle codec, std::string_view bytes, int format, const ImageU8& image,
                uint8_t* pixels) {
  const auto* input = reinterpret_cast<const unsigned char*>(bytes.data());
  return tjDecompress2(codec, input, bytes.size(), pixels, image.width, 0, image.height, format,
                       kDecodeFlags) == 0 ||
         IsHarmless(codec, bytes);
}

// Four inks, stored as Adobe's programs do: 255 is none. Paper and inks have no exact RGB.
bool DecompressInks(tjhandle codec, std::string_view bytes, ImageU8* image) {
  const size_t n = image->pixels.size() / 3;
  std::vector<uint8_t> inks(4 * n);
  if (!Decompress(codec, bytes, TJPF_CMYK, *image, inks.data())) return false;
  // Adobe's programs, which say so in a segment at the begin, store 255 where there is no ink.
  if (bytes.substr(0, 1 << 16).find("Adobe") == std::string_view::npos) {
    for (uint8_t& ink : inks) ink = static_cast<uint8_t>(255 - ink);
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t c = 0; c < 3; ++c) {
      image->pixels[3 * i + c] =
          static_cast<uint8_t>((inks[4 * i + c] * inks[4 * i + 3] + 127) / 255);
    }
  }
  return true;
}

}  // namespace

absl::StatusOr<ImageU8> DecodeJpeg(std::string_view bytes, const ImageHeader& header) {
  Codec codec(tjInitDecompress());
  if (codec == nullptr) return absl::ResourceExhaustedError("memory for a JPEG reader");
  const auto* input = reinterpret_cast<const unsigned char*>(bytes.data());
  int width = 0, height = 0, subsampling = 0, color_space = 0;
  if (tjDecompressHeader3(codec.get(), input, bytes.size(), &width, &height, &subsampling,
                          &color_space) != 0 &&
      !IsHarmless(codec.get(), bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("JPEG is damaged: ", tjGetErrorStr2(codec.get())));
  }
  if (width != header.width || height != header.height) {
    return absl::InvalidArgumentError("JPEG is damaged: header and pixels disagree");
  }
  ImageU8 image;
  image.width = width;
  image.height = height;
  image.n_channels = 3;
  image.pixels.resize(header.DecodedBytes());
  const bool has_inks = color_space == TJCS_CMYK || color_space == TJCS_YCCK;
  const bool is_whole = has_inks
                            ? DecompressInks(codec.get(), bytes, &image)
                            : Decompress(codec.get(), bytes, TJPF_RGB, image, image.pixels.data());
  if (!is_whole) {
    return absl::InvalidArgumentError(
        absl::StrCat("JPEG is damaged: ", tjGetErrorStr2(codec.get())));
  }
  return image;
}

absl::StatusOr<std::string> EncodeJpegPixels(const ImageU8& image, int quality) {
  Codec codec(tjInitCompress());
  if (codec == nullptr) return absl::ResourceExhaustedError("memory for a JPEG writer");
  const bool is_gray = image.n_channels == 1;
  unsigned char* output = nullptr;
  unsigned long output_size = 0;  // NOLINT: TurboJPEG's type
  const int result = tjCompress2(codec.get(), image.pixels.data(), image.width, 0, image.height,
                                 is_gray ? TJPF_GRAY : TJPF_RGB, &output, &output_size,
                                 is_gray ? TJSAMP_GRAY : TJSAMP_444, quality, TJFLAG_ACCURATEDCT);
  const std::unique_ptr<unsigned char, void (*)(unsigned char*)> owned(output, tjFree);
  if (result != 0) {
    return absl::InvalidArgumentError(absl::StrCat("JPEG encoder: ", tjGetErrorStr2(codec.get())));
  }
  return std::string(reinterpret_cast<const char*>(output), output_size);
}

}  // namespace nerf
