#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "engine/base/crop_box.h"
#include "engine/base/parallel_for.h"
#include "engine/field/trained_model.h"
#include "engine/scene/camera.h"
#include "engine/scene/scene.h"

namespace nerf {

// A rendered view. Rows top to bottom.
struct RenderedView {
  int width = 0, height = 0;
  bool straight_alpha = false;   // how Quantized writes the colors, which are on black then
  std::vector<Vec3> colors;      // [height * width] sRGB, composited on the background
  std::vector<float> opacities;  // [height * width] sum of weights, 0 to 1
  std::vector<float> depths;  // [height * width] expected distance along the ray, training units; 0
                              // where opacity is below a tenth
};

struct RenderOptions {
  Vec3 background{1, 1, 1};
  // In place of the background, what a model has learned that lies behind its boxes.
  bool own_background = true;
  // Pictures have straight alpha, the color of what is there without a background; both of the
  // above are left aside.
  bool straight_alpha = false;
  std::optional<CropBox> crop = {};  // training frame: what lies outside is not shown
  float min_transmittance = 1e-4f;   // a ray ends at the sample that leaves less light than this
  // A pixel shows the mean color and opacity of so many rays (base/pixel_offset.h), and their
  // MiddleDepth.
  int rays_per_pixel = 1;
  // Progressive refinement: the first pass renders one pixel in first_stride^2, and each pass after
  // it halves the stride. A power of two; 1 renders the view in one pass. What a pixel shows does
  // not depend on it. CUDA devices take one pass all the same.
  int first_stride = 1;
};

// Rays of a pixel of a view, where each pixel of the training pictures has `of_picture` and is
// picture_pixel wide (1 / focal length; 0: not known). A pixel k times as wide, k a power of two,
// has k^2 times as many, since it shows a mean over k^2 pixels of the pictures: at most
// kMaxRaysOfView.
int RaysOfPixel(int of_picture, float picture_pixel, const Camera& camera);

// Median of the depths of a pixel's rays. Of an even number the mean of the middle two, or the
// nearer one where they are more than a hundredth apart: a mean would lie on no surface at an edge.
// 0 for none. Requires depths above 0; reorders them.
float MiddleDepth(std::span<float> depths);

// The color behind the rays of such a view, and whether it gives way to the model's own, which a
// box cuts off.
inline Vec3 BehindRays(const RenderOptions& options) {
  return options.straight_alpha ? Vec3{} : options.background;
}
inline bool ShowsOwnBackground(const RenderOptions& options) {
  return options.own_background && !options.straight_alpha && !options.crop.has_value();
}

// Some tiles of one pass of a view: begin, begin + step, ... below end. The tiles of a pass are
// numbered row by row.
struct TileRange {
  int32_t stride = 1;  // of the pass
  int32_t begin = 0, end = 0, step = 1;
};

// Renders tiles of views for processes that share them. Borrows the model. Used from one thread.
class TileRenderer {
 public:
  TileRenderer(const TrainedModel& model, float near);  // near as ViewRender's
  ~TileRenderer();

  // The rays of the tiles, in their order. Bytes do not depend on the pool's size.
  std::vector<RenderedRay> Render(const Camera& camera, const RenderOptions& options,
                                  const TileRange& tiles, ThreadPool* pool);

 private:
  struct Scratch;
  const TrainedModel& model_;
  const float near_;
  std::vector<std::unique_ptr<Scratch>> scratch_;  // of threads
};

// A view that is rendered in parts, pass by pass and in each pass tile by tile, so that its caller
// can do other things in between. Bytes depend neither on the pool's size nor on where the work
// paused. Used from one thread.
class ViewRender {
 public:
  // Borrows the model. near, in training units: where rays start. camera is of the training frame.
  ViewRender(const TrainedModel& model, float near, const Camera& camera,
             const RenderOptions& options);
  ViewRender(ViewRender&&) noexcept;
  ~ViewRender();

  // Continues. Returns true when a pass is finished; false before that, when `pause` (unset: never)
  // returned true, which is asked on the caller's thread after each of its tiles, or when `stop`
  // was requested. Requires: !finished().
  bool Advance(ThreadPool* pool, const std::function<bool()>& pause, const std::stop_token& stop);
  // Every pixel is rendered.
  bool finished() const;

  // In place of Advance, for processes that share the view. The next tiles of the pass, at most n.
  // Requires: !finished(), Advance was not called.
  TileRange NextTiles(int n) const;
  // Takes the rays that TileRenderer::Render returned for some of NextTiles. Returns false if they
  // are not as many as the tiles have.
  bool Place(const TileRange& tiles, std::span<const RenderedRay> rays);
  // All of these NextTiles were placed. Returns true when a pass is finished.
  bool EndTiles(const TileRange& tiles);

  // The view; until it is finished, each pixel shows the nearest one above and to the left of it
  // that a finished pass has rendered. Requires: a pass is finished; called once when all are.
  RenderedView TakeView();

 private:
  struct Work;
  std::unique_ptr<Work> work_;
};

}  // namespace nerf
