#include "engine/tool/rendered_files.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/atomic_file.h"
#include "common/status_macros.h"
#include "engine/scene/image_io.h"
#include "engine/tool/view_writer.h"

namespace nerf {
namespace {

// A part of a file name that an id of any characters gives.
std::string FileStem(const std::string& id) {
  std::string stem;
  for (char c : id.substr(0, 64)) {
    const bool safe = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '-' || c == '_';
    stem += safe ? c : '_';
  }
  return stem;
}

}  // namespace

absl::StatusOr<RenderedFiles> WriteRenderedFiles(const ViewPicture& view,
                                                 const RenderMessage& message, float scale) {
  NERF_RETURN_IF_ERROR(CreateFolder(message.out));
  const std::string prefix = message.out + "/" + FileStem(message.id);
  RenderedFiles written;
  if (message.channels.rgb) {
    const ImageU8 image = ColorsOf(view);
    NERF_ASSIGN_OR_RETURN(std::string bytes, message.jpeg ? EncodeJpeg(image) : EncodePng(image));
    const std::string path = prefix + "_rgb." + (message.jpeg ? "jpg" : "png");
    NERF_RETURN_IF_ERROR(WriteFileAtomically(path, bytes));
    written.files["rgb"] = path;
  }
  if (message.channels.depth) {
    const std::vector<float> depths = OwnDepths(view, scale);
    float largest = 0;
    for (float depth : depths) largest = std::max(largest, depth);
    written.far = FarOf(largest);
    const std::string path = prefix + "_depth.png";
    absl::Status status =
        WritePng16(path, view.rgba.width, view.rgba.height, DepthToGray(depths, written.far));
    if (!status.ok()) return status;
    written.files["depth"] = path;
  }
  if (message.channels.opacity) {
    const std::string path = prefix + "_opacity.png";
    NERF_RETURN_IF_ERROR(WritePng(path, OpacityImage(view)));
    written.files["opacity"] = path;
  }
  return written;
}

}  // namespace nerf
