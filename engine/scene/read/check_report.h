#pragma once

#include <string>
#include <string_view>

#include "engine/scene/read/scene_reader.h"

namespace nerf {

// The report of `check` as text: a summary line, then one line per problem ("error  file: field:
// message") and per warning ("warn   ..."). Ends with a newline. `background` is the requested one:
// auto, white, black or random.
std::string CheckReportText(const SceneDescription& description,
                            std::string_view background = "auto");

// The report as one line of JSON without newline:
// {"event":"done","ok":...,"flavor":...,"problems":[{"file","field","message"}], "warnings":[...],
// ...}.
std::string CheckReportJson(const SceneDescription& description);

}  // namespace nerf
