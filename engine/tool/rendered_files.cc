#include "engine/tool/rendered_files.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "common/atomic_file.h"
#include "common/file_io.h"
#include "common/status_macros.h"
#include "engine/scene/image_io.h"
#include "engine/tool/training_session.h"

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

// Without a sync: nobody asks for a live frame after a power cut.
absl::Status WriteLiveImage(const ImageU8& image, int quality, const std::string& path) {
  NERF_ASSIGN_OR_RETURN(const std::string bytes, EncodeJpeg(image, quality));
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.ok()) return ErrnoToStatus(errno, "create " + path);
  return WriteFully(fd.get(), bytes, 0, path);
}

absl::StatusOr<RenderedFiles> WriteLiveFrame(const ViewPicture& view,
                                             const protocol::Render& request,
                                             const ViewChannels& channels, float scale) {
  RenderedFiles written;
  const auto write = [&](const std::string& channel, const ImageU8& image) {
    const std::string path = request.out + "/" + FileStem(request.id) + "_" + channel + ".jpg";
    written.files[channel] = path;
    return WriteLiveImage(image, request.jpeg_quality, path);
  };
  if (channels.rgb) NERF_RETURN_IF_ERROR(write("rgb", ColorsOf(view)));
  if (channels.depth) {
    const std::vector<float> depths = OwnDepths(view, scale);
    written.far = FarOf(LargestOf(depths));
    NERF_RETURN_IF_ERROR(write("depth", DepthImage(view, depths, written.far)));
  }
  if (channels.opacity) NERF_RETURN_IF_ERROR(write("opacity", OpacityImage(view)));
  return written;
}

}  // namespace

absl::StatusOr<RenderedFiles> WriteRenderedFiles(const ViewPicture& view,
                                                 const protocol::Render& request,
                                                 const ViewChannels& channels, float scale) {
  NERF_RETURN_IF_ERROR(CreateFolder(request.out));
  if (request.live) return WriteLiveFrame(view, request, channels, scale);
  const std::string prefix = request.out + "/" + FileStem(request.id);
  RenderedFiles written;
  if (channels.rgb) {
    const ImageU8 image = ColorsOf(view);
    NERF_ASSIGN_OR_RETURN(std::string bytes, request.jpeg ? EncodeJpeg(image, request.jpeg_quality)
                                                          : EncodePng(image));
    const std::string path = prefix + "_rgb." + (request.jpeg ? "jpg" : "png");
    NERF_RETURN_IF_ERROR(WriteFileAtomically(path, bytes));
    written.files["rgb"] = path;
  }
  if (channels.depth) {
    const std::vector<float> depths = OwnDepths(view, scale);
    written.far = FarOf(LargestOf(depths));
    const std::string path = prefix + "_depth.png";
    NERF_RETURN_IF_ERROR(
        WritePng16(path, view.rgba.width, view.rgba.height, DepthToGray(depths, written.far)));
    written.files["depth"] = path;
  }
  if (channels.opacity) {
    const std::string path = prefix + "_opacity.png";
    NERF_RETURN_IF_ERROR(WritePng(path, OpacityImage(view)));
    written.files["opacity"] = path;
  }
  return written;
}

}  // namespace nerf
