#pragma once

#include <array>
#include <cstdint>

namespace nerf {

inline constexpr int kGlyphWidth = 5;
inline constexpr int kGlyphHeight = 7;

// Seven rows of five pixels, the leftmost in bit 4. Digits, capitals (small letters look the same)
// and the punctuation of labels; other characters are blank.
std::array<uint8_t, kGlyphHeight> Glyph(char c);

}  // namespace nerf
