#include "engine/scene/phone_pictures/phone_pictures.h"

#include <libheif/heif.h>
#include <webp/decode.h>

#include <cstring>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/scene/phone_pictures/coded_size.h"
#include "engine/scene/pictures/image_codecs.h"

namespace nerf {
namespace {

absl::Status Damaged(const char* format, const char* why) {
  return absl::InvalidArgumentError(absl::StrCat(format, " is damaged: ", why));
}

ImageU8 ImageOf(const ImageHeader& header) {
  ImageU8 image{header.width, header.height, header.n_channels, {}};
  image.pixels.resize(header.DecodedBytes());
  return image;
}

absl::StatusOr<ImageU8> DecodeWebp(std::string_view bytes, const ImageHeader& header) {
  const auto* const input = reinterpret_cast<const uint8_t*>(bytes.data());
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(input, bytes.size(), &features) != VP8_STATUS_OK)
    return Damaged("WebP", "no frame header");
  if (features.width != header.width || features.height != header.height)
    return Damaged("WebP", "header and pixels disagree");
  ImageU8 image = ImageOf(header);
  const int stride = header.width * header.n_channels;
  const uint8_t* const decoded = header.n_channels == 4
                                     ? WebPDecodeRGBAInto(input, bytes.size(), image.pixels.data(),
                                                          image.pixels.size(), stride)
                                     : WebPDecodeRGBInto(input, bytes.size(), image.pixels.data(),
                                                         image.pixels.size(), stride);
  if (decoded == nullptr) return Damaged("WebP", "pixels are missing or wrong");
  return image;
}

struct FreeHeif {
  void operator()(heif_context* context) const { heif_context_free(context); }
  void operator()(heif_image_handle* handle) const { heif_image_handle_release(handle); }
  void operator()(heif_image* image) const { heif_image_release(image); }
};

absl::StatusOr<ImageU8> DecodeHeif(std::string_view bytes, const ImageHeader& header) {
  if (absl::Status status = CheckCodedSize(bytes, header); !status.ok()) return status;
  const std::unique_ptr<heif_context, FreeHeif> context(heif_context_alloc());
  if (context == nullptr) return absl::ResourceExhaustedError("memory for a HEIF reader");
  heif_context_set_max_decoding_threads(context.get(), 0);
  heif_error error = heif_context_read_from_memory_without_copy(context.get(), bytes.data(),
                                                                bytes.size(), nullptr);
  if (error.code != heif_error_Ok) return Damaged("HEIF", error.message);
  heif_image_handle* opened = nullptr;
  error = heif_context_get_primary_image_handle(context.get(), &opened);
  const std::unique_ptr<heif_image_handle, FreeHeif> handle(opened);
  if (error.code != heif_error_Ok) return Damaged("HEIF", error.message);
  if (heif_image_handle_get_width(handle.get()) != header.width ||
      heif_image_handle_get_height(handle.get()) != header.height) {
    return Damaged("HEIF", "header and pixels disagree");
  }
  heif_image* decoded = nullptr;
  const bool has_alpha = header.n_channels == 4;
  error = heif_decode_image(handle.get(), &decoded, heif_colorspace_RGB,
                            has_alpha ? heif_chroma_interleaved_RGBA : heif_chroma_interleaved_RGB,
                            nullptr);
  const std::unique_ptr<heif_image, FreeHeif> pixels(decoded);
  if (error.code != heif_error_Ok) return Damaged("HEIF", error.message);
  int stride = 0;
  const uint8_t* const rows =
      heif_image_get_plane_readonly(pixels.get(), heif_channel_interleaved, &stride);
  if (rows == nullptr || heif_image_get_primary_width(pixels.get()) != header.width ||
      heif_image_get_primary_height(pixels.get()) != header.height) {
    return Damaged("HEIF", "header and pixels disagree");
  }
  ImageU8 image = ImageOf(header);
  const size_t row_bytes = static_cast<size_t>(header.width) * header.n_channels;
  for (int y = 0; y < header.height; ++y) {
    std::memcpy(image.pixels.data() + y * row_bytes, rows + static_cast<ptrdiff_t>(y) * stride,
                row_bytes);
  }
  return image;
}

}  // namespace

void RegisterPhonePictures() {
  SetPictureDecoder(ImageFormat::kHeif, &DecodeHeif);
  SetPictureDecoder(ImageFormat::kWebp, &DecodeWebp);
}

}  // namespace nerf
