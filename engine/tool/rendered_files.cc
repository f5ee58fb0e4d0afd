#include "engine/tool/rendered_files.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/atomic_file.h"
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

}  // namespace

absl::StatusOr<RenderedFiles> WriteRenderedFiles(const ViewPicture& view,
                                                 const protocol::Render& request,
                                                 const ViewChannels& channels, float scale) {
  NERF_RETURN_IF_ERROR(CreateFolder(request.out));
  const std::string prefix = request.out + "/" + FileStem(request.id);
  RenderedFiles written;
  if (channels.rgb) {
    const ImageU8 image = ColorsOf(view);
    NERF_ASSIGN_OR_RETURN(std::string bytes, request.jpeg ? EncodeJpeg(image) : EncodePng(image));
    const std::string path = prefix + "_rgb." + (request.jpeg ? "jpg" : "png");
    NERF_RETURN_IF_ERROR(WriteFileAtomically(path, bytes));
    written.files["rgb"] = path;
  }
  if (channels.depth) {
    const std::vector<float> depths = OwnDepths(view, scale);
    float largest = 0;
    for (float depth : depths) largest = std::max(largest, depth);
    written.far = FarOf(largest);
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
