#pragma once

#include <string_view>

#include "common/problems.h"
#include "engine/base/view_style.h"
#include "nerf/v1/render_service.pb.h"

namespace nerf {

// The style of a message. Adds all problems, named "`field`.crop.center[0]" and so on; the style
// then means nothing.
ViewStyle ReadViewStyle(std::string_view field, const v1::ViewStyle& message, Problems* problems);

v1::ViewStyle ToMessage(const ViewStyle& style);

}  // namespace nerf
