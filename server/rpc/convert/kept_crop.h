#pragma once

#include <string>

#include "nerf/v1/common.pb.h"
#include "nerf/v1/render_service.pb.h"

namespace nerf {

// The bytes in which jobs and models keep a box (Job::crop); empty without one. The box is checked.
std::string KeptCrop(bool has_box, const v1::CropBox& box);
// The style with the kept box, unless it has one of its own or says that it wants none.
void UseKeptCrop(const std::string& kept, v1::ViewStyle* style);

}  // namespace nerf
