#pragma once

#include <cstdint>
#include <string_view>

#include "nerf/v1/render_service.pb.h"

namespace nerf {

// The words of engine/views/path for the kinds of paths.
inline constexpr std::string_view kPathKindWords[] = {"auto", "orbit", "spiral", "flyby",
                                                      "cameras"};
// The word of `kind`: "orbit" if it is unspecified, "" if it is of a newer version.
std::string_view PathKindWord(v1::PathKind kind);
// The kind of a word; PATH_KIND_UNSPECIFIED for other words.
v1::PathKind ParsePathKindWord(std::string_view word);

// Of a job: frames along a path.
inline constexpr uint32_t kMaxPathFrames = 3600;
uint32_t FramesOf(const v1::CameraPath& path);

}  // namespace nerf
