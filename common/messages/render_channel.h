#pragma once

#include <string_view>

#include "nerf/v1/render_service.pb.h"

namespace nerf {

// "rgb", "rgba", "rgbaz", "depth" or "opacity"; "rgb" where it is unspecified.
std::string_view ChannelWord(v1::RenderChannel channel);

}  // namespace nerf
