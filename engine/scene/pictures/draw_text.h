#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "engine/scene/pictures/image.h"

namespace nerf {

using Color = std::array<uint8_t, 3>;

// Writes digits, letters (small ones but d as capitals) and the punctuation of file names into an
// RGB picture, `scale` pixels for each of a glyph's 3 x 5; other characters leave a blank. (x, y)
// is the upper left corner; what lies outside of the picture is cut off.
void DrawText(std::string_view text, int x, int y, int scale, const Color& color, ImageU8* image);

// Pixels that it takes.
int TextWidth(std::string_view text, int scale);
inline int TextHeight(int scale) { return 5 * scale; }

}  // namespace nerf
