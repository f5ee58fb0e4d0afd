#pragma once

#include <string_view>

#include "nerf/v1/render_service.pb.h"

namespace nerf {

// As engine/path names them.
inline constexpr std::string_view kPathKindWords[] = {"auto", "orbit", "spiral", "flyby",
                                                      "cameras"};
// One of these. An unset kind is an orbit; one of a newer version is "".
std::string_view PathKindWord(v1::PathKind kind);
// Its inverse; PATH_KIND_UNSPECIFIED for other words.
v1::PathKind ParsePathKindWord(std::string_view word);

}  // namespace nerf
