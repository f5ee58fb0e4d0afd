#pragma once

#include <string_view>

namespace nerf {

class Session;

// Names `command`, one that renders, as the next one. `views` is the flag for the views that fit
// the capture ("--orbit 8"); empty where the capture is not known here: then an orbit, and what to
// take where not all sides were photographed. `remark` follows.
void SayNextRender(const Session& session, std::string_view command, std::string_view views = "",
                   std::string_view remark = "");

}  // namespace nerf
