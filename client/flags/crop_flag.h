#pragma once

#include <string>
#include <string_view>

#include "engine/config/view_style_check.h"
#include "nerf/v1/common.pb.h"

namespace CLI {
class App;
}

namespace nerf {

// A --crop that leaves out the box that is kept with a model or job, or keeps none.
inline constexpr std::string_view kNoCrop = "none";

v1::CropBox ToProto(const OwnBox& box);
// As --crop takes it: "0,0,0.5,2,2,1".
std::string CropText(const v1::CropBox& box);
// --crop of commands that keep it with a job or model.
void AddKeptCropFlag(CLI::App& command, std::string* crop);

}  // namespace nerf
