#pragma once

#include <string_view>

namespace nerf {

// Whether the name has the ending of a picture that is read (JPEG, PNG, HEIC, AVIF, WebP), or of a
// film that ffmpeg may read, and is not that of a hidden file.
bool HasPhotographEnding(std::string_view name);
bool HasFilmEnding(std::string_view name);

// Whether it has the ending of a picture that has to be saved as JPEG or PNG first, as of a
// camera's raw files.
bool HasOtherPictureEnding(std::string_view name);

}  // namespace nerf
