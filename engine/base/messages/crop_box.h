#pragma once

#include <string>
#include <string_view>

#include "common/problems.h"
#include "engine/base/view_style.h"
#include "nerf/v1/common.pb.h"

namespace nerf {

// The box of a message. Adds all problems to `problems`, named "`field`.center[0]" and so on; the
// box then means nothing.
OwnBox ReadCropBox(std::string_view field, const v1::CropBox& message, Problems* problems);

v1::CropBox ToMessage(const OwnBox& box);

// As --crop takes it: "0,0,0.5,2,2,1".
std::string CropText(const v1::CropBox& box);

}  // namespace nerf
