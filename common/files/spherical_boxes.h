#pragma once

#include <string>

#include "absl/status/status.h"

namespace nerf {

// How a movie's frames hold the views of two eyes, by the numbers of box st3d.
enum class StereoBox { kMono = 0, kTopBottom = 1, kLeftRight = 2 };

// Says in an MP4 or MOV file that its video shows all directions (equirectangular): boxes st3d and
// sv3d in the sample entries. ffmpeg's program has no option for them. The file is replaced as a
// whole; its samples stay as they are. Errors: InvalidArgument for a file that is none, or has no
// video; those of reading and writing.
// Source: Google, Spherical Video V2 RFC; ISO/IEC 14496-12.
absl::Status AddSphericalBoxes(const std::string& path, StereoBox stereo);

}  // namespace nerf
