#include "engine/views/depth_spool.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/files/atomic_file.h"
#include "common/status_macros.h"
#include "engine/scene/pictures/image_io.h"
#include "fmt/format.h"

namespace nerf {

DepthSpool::DepthSpool() : file_(std::tmpfile()) {}

DepthSpool::~DepthSpool() {
  if (file_ != nullptr) std::fclose(file_);
}

absl::Status DepthSpool::Append(const std::string& name, int width, int height,
                                const std::vector<float>& depths) {
  if (file_ == nullptr ||
      std::fwrite(depths.data(), sizeof(float), depths.size(), file_) != depths.size()) {
    return absl::UnavailableError("cannot write a temporary file for depths");
  }
  for (const float depth : depths) largest_ = std::max(largest_, depth);
  range_.Add(depths);
  views_.push_back({name, width, height});
  return absl::OkStatus();
}

absl::Status DepthSpool::WriteImages(const std::string& out, float far,
                                     std::vector<std::string>* written) {
  if (views_.empty()) return absl::OkStatus();
  const std::array<float, 2> bounds = range_.Bounds();
  std::rewind(file_);
  for (const View& view : views_) {
    std::vector<float> depths(static_cast<size_t>(view.width) * view.height);
    if (std::fread(depths.data(), sizeof(float), depths.size(), file_) != depths.size()) {
      return absl::UnavailableError("cannot read the temporary file for depths");
    }
    written->push_back(fmt::format("{}/depth_color_{}.png", out, view.name));
    NERF_RETURN_IF_ERROR(
        WritePng(written->back(), DepthInColor(view.width, view.height, depths, bounds)));
    written->push_back(fmt::format("{}/depth_{}.png", out, view.name));
    NERF_RETURN_IF_ERROR(
        WritePng16(written->back(), view.width, view.height, DepthToGray(depths, far)));
  }
  nlohmann::ordered_json meta;
  meta["far"] = far;
  meta["unit"] = "scene units of the data set";
  meta["encoding"] = "depth / far * 65535; 0: nothing was hit";
  meta["color_near"] = bounds[0];
  meta["color_far"] = bounds[1];
  written->push_back(out + "/depth.json");
  return WriteFileAtomically(written->back(), meta.dump() + "\n");
}

}  // namespace nerf
