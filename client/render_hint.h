#pragma once

#include <string_view>

namespace nerf {

class Session;

// Suggests the render command `command` as the next one. `views` is the camera flag that suits the
// capture, such as "--orbit 8". If the capture is unknown, it is empty and both choices are shown.
// `remark` is appended.
void SayNextRender(const Session& session, std::string_view command, std::string_view views = "",
                   std::string_view remark = "");

}  // namespace nerf
