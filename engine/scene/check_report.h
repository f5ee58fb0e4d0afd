#pragma once

#include <string>
#include <string_view>

#include "engine/scene/scene_reader.h"

namespace nerf {

// What `check` prints for people: a summary line, then one line for each problem ("error  file:
// field: message") and each warning ("warn   ..."). Ends with a newline. `background` is the one
// that is asked for: auto, white, black or random.
std::string CheckReportText(const SceneDescription& description,
                            std::string_view background = "auto");

// The same as one line of JSON without newline:
// {"event":"done","ok":...,"flavor":...,"problems":[{"file","field","message"}], "warnings":[...],
// ...}.
std::string CheckReportJson(const SceneDescription& description);

}  // namespace nerf
