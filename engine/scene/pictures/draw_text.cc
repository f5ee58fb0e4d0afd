#include "engine/scene/pictures/draw_text.h"

#include <algorithm>

namespace nerf {
namespace {

// Rows of three bits, the top one first, as octal digits.
uint16_t GlyphOf(char c) {
  constexpr uint16_t kDigits[10] = {075557, 026227, 071747, 071717, 055711,
                                    074717, 074757, 071122, 075757, 075717};
  constexpr uint16_t kCapitals[26] = {025755, 065656, 034443, 065556, 074647, 074644, 034553,
                                      055755, 072227, 011152, 055655, 044447, 057755, 065555,
                                      025552, 065644, 025563, 065655, 034216, 072222, 055557,
                                      055552, 055775, 055255, 055222, 071247};
  if (c >= '0' && c <= '9') return kDigits[c - '0'];
  if (c >= 'A' && c <= 'Z') return kCapitals[c - 'A'];
  if (c >= 'a' && c <= 'z' && c != 'd') return kCapitals[c - 'a'];
  switch (c) {
    case '.':
      return 000002;
    case '-':
      return 000700;
    case '%':
      return 051245;
    case 'd':
      return 011757;
    case '_':
      return 000007;
    case '(':
      return 012221;
    case ')':
      return 042224;
    case '+':
      return 002720;
    case '?':
      return 071202;
    default:
      return 0;
  }
}

}  // namespace

void DrawText(std::string_view text, int x, int y, int scale, const Color& color, ImageU8* image) {
  for (const char c : text) {
    const uint16_t glyph = GlyphOf(c);
    for (int row = 0; row < 5 * scale; ++row) {
      for (int column = 0; column < 3 * scale; ++column) {
        if ((glyph >> (14 - row / scale * 3 - column / scale) & 1) == 0) continue;
        const int to_x = x + column, to_y = y + row;
        if (to_x < 0 || to_y < 0 || to_x >= image->width || to_y >= image->height) continue;
        std::copy(color.begin(), color.end(),
                  image->pixels.begin() +
                      (static_cast<int64_t>(to_y) * image->width + to_x) * image->n_channels);
      }
    }
    x += 4 * scale;
  }
}

int TextWidth(std::string_view text, int scale) {
  return text.empty() ? 0 : static_cast<int>(text.size()) * 4 * scale - scale;
}

}  // namespace nerf
