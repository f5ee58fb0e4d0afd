#include "engine/scene/pictures/exr_codec.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "engine/base/half_float.h"
#include "engine/base/linear_light.h"

namespace nerf {
namespace {

constexpr int kBlockRows = 16;    // of ZIP compression
constexpr int kDeflateLevel = 4;  // OpenEXR's own
constexpr uint32_t kExrMagic = 20000630;
constexpr uint32_t kExrVersion = 2;  // scan lines, one part
constexpr uint8_t kZipCompression = 3;
constexpr uint32_t kHalfType = 1, kFloatType = 2;

void PutExr32(uint32_t value, std::string* out) {
  for (int shift = 0; shift < 32; shift += 8) out->push_back(static_cast<char>(value >> shift));
}

void PutExr16(uint16_t value, std::string* out) {
  out->push_back(static_cast<char>(value));
  out->push_back(static_cast<char>(value >> 8));
}

void PutExrFloat(float value, std::string* out) { PutExr32(std::bit_cast<uint32_t>(value), out); }

void PutAttribute(std::string_view name, std::string_view type, const std::string& value,
                  std::string* out) {
  for (const std::string_view text : {name, type}) {
    out->append(text);
    out->push_back('\0');
  }
  PutExr32(static_cast<uint32_t>(value.size()), out);
  out->append(value);
}

std::string ExrHeader(int width, int height, std::span<const ExrChannel> channels,
                      const std::string& more_attributes) {
  std::string list, window, zeros, one, out;
  for (const ExrChannel& channel : channels) {
    list += {channel.name, '\0'};
    PutExr32(channel.is_half ? kHalfType : kFloatType, &list);
    PutExr32(0, &list);  // pLinear and 3 reserved bytes
    PutExr32(1, &list);  // a sample at every pixel, along x
    PutExr32(1, &list);  // along y
  }
  list.push_back('\0');
  for (const int number : {0, 0, width - 1, height - 1}) {
    PutExr32(static_cast<uint32_t>(number), &window);
  }
  for (int i = 0; i < 2; ++i) PutExrFloat(0, &zeros);
  PutExrFloat(1, &one);
  PutExr32(kExrMagic, &out);
  PutExr32(kExrVersion, &out);
  PutAttribute("channels", "chlist", list, &out);
  PutAttribute("compression", "compression", {static_cast<char>(kZipCompression)}, &out);
  PutAttribute("dataWindow", "box2i", window, &out);
  PutAttribute("displayWindow", "box2i", window, &out);
  PutAttribute("lineOrder", "lineOrder", std::string(1, '\0'), &out);  // y grows
  PutAttribute("pixelAspectRatio", "float", one, &out);
  PutAttribute("screenWindowCenter", "v2f", zeros, &out);
  PutAttribute("screenWindowWidth", "float", one, &out);
  out.append(more_attributes);
  out.push_back('\0');
  return out;
}

// Rows of channels, each channel's row by itself.
std::string BlockOf(int width, int begin, int end, std::span<const ExrChannel> channels) {
  std::string block;
  for (int y = begin; y < end; ++y) {
    for (const ExrChannel& channel : channels) {
      for (const float value : channel.values.subspan(static_cast<size_t>(y) * width, width)) {
        if (channel.is_half) {
          PutExr16(FloatToHalf(value), &block);
        } else {
          PutExrFloat(value, &block);
        }
      }
    }
  }
  return block;
}

// Even bytes before odd ones, then each as its difference from the one before, then deflated. A
// block that does not shrink is stored as it is.
std::string Zipped(const std::string& block) {
  std::string sorted;
  sorted.reserve(block.size());
  for (size_t i = 0; i < block.size(); i += 2) sorted.push_back(block[i]);
  for (size_t i = 1; i < block.size(); i += 2) sorted.push_back(block[i]);
  for (size_t i = sorted.size() - 1; i > 0; --i) {
    sorted[i] = static_cast<char>(static_cast<uint8_t>(sorted[i]) -
                                  static_cast<uint8_t>(sorted[i - 1]) + 128);
  }
  uLongf size = compressBound(static_cast<uLong>(sorted.size()));
  std::string out(size, '\0');
  const int result = compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                               reinterpret_cast<const Bytef*>(sorted.data()),
                               static_cast<uLong>(sorted.size()), kDeflateLevel);
  if (result != Z_OK || size >= block.size()) return block;
  out.resize(size);
  return out;
}

std::string Floats(std::span<const float> values) {
  std::string bytes;
  for (const float value : values) PutExrFloat(value, &bytes);
  return bytes;
}

std::string CameraAttributes(const ExrCamera& camera) {
  // x and y of red, green, blue and white in sRGB, which are those of ITU-R BT.709.
  constexpr float kChromaticities[] = {0.64f, 0.33f, 0.3f, 0.6f, 0.15f, 0.06f, 0.3127f, 0.329f};
  std::string out;
  PutAttribute("chromaticities", "chromaticities", Floats(kChromaticities), &out);
  PutAttribute("worldToCamera", "m44f", Floats(camera.world_to_camera), &out);
  if (camera.world_to_ndc.has_value())
    PutAttribute("worldToNDC", "m44f", Floats(*camera.world_to_ndc), &out);
  if (camera.origin == Vec3d{0, 0, 0}) return out;
  std::string origin;
  for (const double along : camera.origin) {
    const auto bits = std::bit_cast<uint64_t>(along);
    PutExr32(static_cast<uint32_t>(bits), &origin);
    PutExr32(static_cast<uint32_t>(bits >> 32), &origin);
  }
  PutAttribute("worldOrigin", "v3d", origin, &out);
  return out;
}

// The channels of a picture as EncodeExrPicture has them.
absl::StatusOr<std::vector<std::vector<float>>> PlanesOf(const ImageU8& image) {
  const auto n_channels = static_cast<size_t>(image.n_channels);
  const bool is_gray = n_channels == 1;
  if ((!is_gray && n_channels != 3 && n_channels != 4) || image.pixels.size() % n_channels != 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("a picture of %d channels cannot be written as EXR", image.n_channels));
  }
  constexpr float kFull = 255;
  std::array<float, 256> light;
  for (size_t i = 0; i < light.size(); ++i) light[i] = LinearLight(static_cast<float>(i) / kFull);
  std::vector<std::vector<float>> planes(n_channels);
  for (std::vector<float>& plane : planes) plane.reserve(image.pixels.size() / n_channels);
  for (size_t i = 0; i < image.pixels.size(); i += n_channels) {
    const float alpha = n_channels == 4 ? static_cast<float>(image.pixels[i + 3]) / kFull : 1;
    for (size_t c = 0; c < n_channels; ++c) {
      const uint8_t value = image.pixels[i + c];
      const bool is_color = !is_gray && c < 3;
      planes[c].push_back(is_color ? light[value] * alpha : static_cast<float>(value) / kFull);
    }
  }
  return planes;
}

// In the order that files have.
std::vector<ExrChannel> ChannelsOfPlanes(const std::vector<std::vector<float>>& planes) {
  const std::string_view names = planes.size() == 1 ? "Y" : planes.size() == 3 ? "RGB" : "RGBA";
  std::vector<ExrChannel> channels;
  for (size_t c = 0; c < planes.size(); ++c) channels.push_back({names[c], true, planes[c]});
  std::sort(channels.begin(), channels.end(),
            [](const ExrChannel& a, const ExrChannel& b) { return a.name < b.name; });
  return channels;
}

absl::StatusOr<std::string> EncodeWith(const std::string& more_attributes, int width, int height,
                                       std::span<const ExrChannel> channels,
                                       const std::stop_token& stop) {
  const bool has_size = width >= 1 && height >= 1 && !channels.empty();
  const size_t n_pixels = has_size ? static_cast<size_t>(width) * static_cast<size_t>(height) : 0;
  const bool fits = std::all_of(channels.begin(), channels.end(), [&](const ExrChannel& channel) {
    return channel.values.size() == n_pixels;
  });
  if (!has_size || !fits) {
    return absl::InvalidArgumentError(
        absl::StrFormat("a picture of %d x %d pixels cannot be written as EXR", width, height));
  }
  std::string out = ExrHeader(width, height, channels, more_attributes);
  const int n_blocks = (height + kBlockRows - 1) / kBlockRows;
  size_t entry = out.size();
  out.append(static_cast<size_t>(n_blocks) * sizeof(uint64_t), '\0');  // places of the blocks
  for (int i = 0; i < n_blocks; ++i) {
    if (stop.stop_requested()) return absl::CancelledError("the render was stopped");
    const uint64_t place = out.size();
    for (size_t byte = 0; byte < sizeof(place); ++byte) {
      out[entry++] = static_cast<char>(place >> (8 * byte));
    }
    const int begin = i * kBlockRows;
    const std::string block =
        Zipped(BlockOf(width, begin, std::min(begin + kBlockRows, height), channels));
    PutExr32(static_cast<uint32_t>(begin), &out);
    PutExr32(static_cast<uint32_t>(block.size()), &out);
    out.append(block);
  }
  return out;
}

}  // namespace

absl::StatusOr<std::string> EncodeExr(int width, int height, std::span<const ExrChannel> channels,
                                      const std::stop_token& stop) {
  return EncodeWith("", width, height, channels, stop);
}

absl::StatusOr<std::string> EncodeExrPicture(const ImageU8& image, const std::stop_token& stop) {
  NERF_ASSIGN_OR_RETURN(const auto planes, PlanesOf(image));
  return EncodeExr(image.width, image.height, ChannelsOfPlanes(planes), stop);
}

absl::StatusOr<std::string> EncodeExrDepth(int width, int height, const std::vector<float>& depths,
                                           const std::stop_token& stop) {
  const ExrChannel channel{'Z', false, depths};
  return EncodeExr(width, height, {&channel, 1}, stop);
}

absl::StatusOr<std::string> EncodeExrView(const ImageU8& rgba, const std::vector<float>& depths,
                                          const ExrCamera& camera, const std::stop_token& stop) {
  if (rgba.n_channels != 4) return absl::InvalidArgumentError("RGBAZ needs a picture with alpha");
  NERF_ASSIGN_OR_RETURN(const auto planes, PlanesOf(rgba));
  std::vector<ExrChannel> channels = ChannelsOfPlanes(planes);
  channels.push_back({'Z', false, depths});
  return EncodeWith(CameraAttributes(camera), rgba.width, rgba.height, channels, stop);
}

}  // namespace nerf
