#include <chafa.h>

#include <algorithm>
#include <memory>

#include "client/show/terminal_image.h"

namespace nerf {
namespace {

// A cell of a terminal is about twice as high as wide.
constexpr float kCellAspect = 0.5f;
// Size of a cell in pixels for the graphics protocols, which scale to cells anyway.
constexpr int kCellWidth = 10, kCellHeight = 20;

template <auto kRelease>
struct Release {
  template <typename T>
  void operator()(T* object) const {
    kRelease(object);
  }
};
template <typename T, auto kRelease>
using Owned = std::unique_ptr<T, Release<kRelease>>;

ChafaPixelMode PixelModeOf(const ChafaTermInfo* terminal) {
  if (chafa_term_info_have_seq(terminal, CHAFA_TERM_SEQ_BEGIN_KITTY_IMMEDIATE_IMAGE_V1)) {
    return CHAFA_PIXEL_MODE_KITTY;
  }
  if (chafa_term_info_have_seq(terminal, CHAFA_TERM_SEQ_BEGIN_ITERM2_IMAGE)) {
    return CHAFA_PIXEL_MODE_ITERM2;
  }
  if (chafa_term_info_have_seq(terminal, CHAFA_TERM_SEQ_BEGIN_SIXELS)) {
    return CHAFA_PIXEL_MODE_SIXELS;
  }
  return CHAFA_PIXEL_MODE_SYMBOLS;
}

ChafaCanvasMode CanvasModeOf(const ChafaTermInfo* terminal) {
  if (chafa_term_info_have_seq(terminal, CHAFA_TERM_SEQ_SET_COLOR_FGBG_DIRECT)) {
    return CHAFA_CANVAS_MODE_TRUECOLOR;
  }
  if (chafa_term_info_have_seq(terminal, CHAFA_TERM_SEQ_SET_COLOR_FGBG_256)) {
    return CHAFA_CANVAS_MODE_INDEXED_240;
  }
  return CHAFA_CANVAS_MODE_INDEXED_16;
}

}  // namespace

absl::StatusOr<std::string> TerminalImage(const ImageU8& image, int columns, int rows,
                                          const std::vector<std::string>& environment) {
  std::vector<char*> variables;
  for (const std::string& variable : environment) {
    variables.push_back(const_cast<char*>(variable.c_str()));
  }
  variables.push_back(nullptr);
  const Owned<ChafaTermInfo, chafa_term_info_unref> terminal(
      chafa_term_db_detect(chafa_term_db_get_default(), variables.data()));
  const Owned<ChafaSymbolMap, chafa_symbol_map_unref> symbols(chafa_symbol_map_new());
  chafa_symbol_map_add_by_tags(symbols.get(), CHAFA_SYMBOL_TAG_BLOCK);
  const Owned<ChafaCanvasConfig, chafa_canvas_config_unref> config(chafa_canvas_config_new());
  gint width = std::max(1, columns), height = std::max(1, rows);
  chafa_calc_canvas_geometry(image.width, image.height, &width, &height, kCellAspect,
                             /*zoom=*/FALSE, /*stretch=*/FALSE);
  chafa_canvas_config_set_geometry(config.get(), width, height);
  chafa_canvas_config_set_cell_geometry(config.get(), kCellWidth, kCellHeight);
  chafa_canvas_config_set_pixel_mode(config.get(), PixelModeOf(terminal.get()));
  chafa_canvas_config_set_canvas_mode(config.get(), CanvasModeOf(terminal.get()));
  chafa_canvas_config_set_symbol_map(config.get(), symbols.get());
  const Owned<ChafaCanvas, chafa_canvas_unref> canvas(chafa_canvas_new(config.get()));
  chafa_canvas_draw_all_pixels(
      canvas.get(), image.n_channels == 4 ? CHAFA_PIXEL_RGBA8_UNASSOCIATED : CHAFA_PIXEL_RGB8,
      image.pixels.data(), image.width, image.height, image.width * image.n_channels);
  GString* const text = chafa_canvas_print(canvas.get(), terminal.get());
  std::string result(text->str, text->len);
  g_string_free(text, TRUE);
  return result;
}

}  // namespace nerf
