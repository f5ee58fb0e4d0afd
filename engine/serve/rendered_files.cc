#include "engine/serve/rendered_files.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "common/file_io.h"
#include "common/status_macros.h"
#include "engine/output/view_style.h"
#include "engine/scene/exr_codec.h"
#include "engine/scene/image_io.h"
#include "engine/training/training_session.h"
#include "engine/views/depth_colors.h"

namespace nerf {
namespace {

// The id as part of a file name: other characters than letters, digits, - and _ become _.
std::string FileStem(const std::string& id) {
  std::string stem;
  for (char c : id.substr(0, 64)) {
    const bool safe = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '-' || c == '_';
    stem += safe ? c : '_';
  }
  return stem;
}

float LargestOf(const std::vector<float>& depths) {
  float largest = 0;
  for (const float depth : depths) largest = std::max(largest, depth);
  return largest;
}

// Depths as 8-bit gray.
ImageU8 DepthImage(const ViewPicture& view, const std::vector<float>& depths, float far) {
  ImageU8 image{view.rgba.width, view.rgba.height, 1, {}};
  image.pixels.reserve(depths.size());
  for (const uint16_t gray : DepthToGray(depths, far)) {
    image.pixels.push_back(static_cast<uint8_t>((gray + 128) / 257));
  }
  return image;
}

// Without a sync: a picture that the worker has not read is rendered again after a power cut.
absl::Status WriteUnsynced(const std::string& path, const absl::StatusOr<std::string>& bytes) {
  NERF_RETURN_IF_ERROR(bytes.status());
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.ok()) return ErrnoToStatus(errno, "create " + path);
  return WriteFully(fd.get(), *bytes, 0, path);
}

absl::StatusOr<std::string> EncodeDepth(const ViewPicture& view, const std::vector<float>& depths,
                                        float far, const protocol::Render& request,
                                        const std::stop_token& stop) {
  if (request.live) return EncodeJpeg(DepthImage(view, depths, far), request.jpeg_quality);
  if (request.exr) return EncodeExrDepth(view.rgba.width, view.rgba.height, depths, stop);
  return EncodePng16(view.rgba.width, view.rgba.height, DepthToGray(depths, far), stop);
}

absl::StatusOr<std::string> EncodePicture(const ImageU8& image, bool jpeg,
                                          const protocol::Render& request, const std::string& xmp,
                                          const std::stop_token& stop) {
  if (jpeg) return EncodeJpeg(image, request.jpeg_quality, xmp);
  return request.exr ? EncodeExrPicture(image, stop) : EncodePng(image, stop, xmp);
}

}  // namespace

absl::StatusOr<RenderedFiles> WriteRenderedFiles(const ViewPicture& view,
                                                 const protocol::Render& request,
                                                 const ViewChannels& channels, float scale,
                                                 const std::stop_token& stop) {
  if (stop.stop_requested()) return absl::CancelledError("the render was stopped");
  NERF_RETURN_IF_ERROR(CreateFolder(request.out));
  RenderedFiles written;
  const auto write = [&](const std::string& channel, bool jpeg,
                         const absl::StatusOr<std::string>& bytes) {
    const std::string path = request.out + "/" + FileStem(request.id) + "_" + channel +
                             (jpeg          ? ".jpg"
                              : request.exr ? ".exr"
                                            : ".png");
    written.files[channel] = path;
    return WriteUnsynced(path, bytes);
  };
  const std::string xmp = XmpOf(request.style, view.rgba.width, view.rgba.height);
  if (channels.rgb) {
    const bool jpeg = request.live || request.jpeg;
    NERF_RETURN_IF_ERROR(
        write("rgb", jpeg, EncodePicture(ColorsOf(view), jpeg, request, xmp, stop)));
  }
  if (channels.rgba) {
    if (request.live || request.jpeg)
      return absl::InvalidArgumentError("channels: JPEG cannot hold rgba");
    NERF_RETURN_IF_ERROR(write("rgba", false, EncodePicture(view.rgba, false, request, xmp, stop)));
  }
  if (channels.depth) {
    const std::vector<float> depths = OwnDepths(view, scale);
    written.far = FarOf(LargestOf(depths));
    NERF_RETURN_IF_ERROR(
        write("depth", request.live, EncodeDepth(view, depths, written.far, request, stop)));
  }
  if (channels.opacity) {
    NERF_RETURN_IF_ERROR(
        write("opacity", request.live,
              EncodePicture(OpacityImage(view), request.live, request, /*xmp=*/"", stop)));
  }
  return written;
}

}  // namespace nerf
