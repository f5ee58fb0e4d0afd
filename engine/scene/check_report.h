#pragma once

#include <string>

#include "engine/scene/scene_reader.h"

namespace nerf {

// What `check` prints for people: a summary line, then one line for each problem ("error  file:
// field: message") and each warning ("warn   ..."). Ends with a newline.
std::string CheckReportText(const SceneDescription& description);

// The same as one line of JSON without newline:
// {"event":"done","ok":...,"flavour":...,"problems":[{"file","field","message"}], "warnings":[...],
// ...}.
std::string CheckReportJson(const SceneDescription& description);

}  // namespace nerf
