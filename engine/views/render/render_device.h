#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "engine/base/parallel_for.h"
#include "engine/field/trained_model.h"
#include "engine/scene/camera.h"
#include "engine/scene/pictures/image.h"
#include "engine/scene/scene.h"
#include "engine/views/render/renderer.h"

namespace nerf {

// A rendered view as pictures and depth maps hold it. Rows top to bottom.
struct ViewPicture {
  // sRGB composited on the background, and opacity; with RenderOptions::straight_alpha a picture
  // with straight alpha.
  ImageU8 rgba;
  std::vector<float> depths;  // [height * width] as RenderedView has them
};
// Rounds to 8 bits; takes the depths along.
ViewPicture Quantized(RenderedView&& view);
// The mean of pictures of the same size, each of one ray of every pixel, as
// RenderOptions::rays_per_pixel says. straight_alpha: colors count by their opacity. Requires: one
// picture or more.
ViewPicture MeanOfPictures(std::vector<ViewPicture> of_rays, bool straight_alpha);
// The colors alone: RGB.
ImageU8 ColorsOf(const ViewPicture& picture);

// A picture that is rendered part by part, as ViewRender says. A CUDA device renders it as a whole:
// there `pause` is asked now and then, and its answer is left aside.
class PictureRender {
 public:
  virtual ~PictureRender() = default;
  virtual bool Advance(const std::function<bool()>& pause, const std::stop_token& stop) = 0;
  virtual bool finished() const = 0;
  virtual ViewPicture TakePicture() = 0;
};

// A trained scene that lies where it is rendered. Used from one thread.
class SceneRenderer {
 public:
  virtual ~SceneRenderer() = default;
  // Begins to render `camera` (training frame). The renderer outlives what it returns.
  virtual std::unique_ptr<PictureRender> Begin(const Camera& camera,
                                               const RenderOptions& options) = 0;
  // TrainedModel::OccupiedBox of the model.
  virtual Aabb OccupiedBox() const = 0;
  // TrainedModel::OccupiedShare of the model.
  virtual std::optional<double> OccupiedShare() const { return std::nullopt; }

  // Renders a whole picture. Returns false when `stop` was requested before the end; `picture` is
  // then as it was.
  bool Render(const Camera& camera, const RenderOptions& options, const std::stop_token& stop,
              ViewPicture* picture);
};

// Where views are rendered: the seam between those that want pictures and the CPU's threads or a
// device. Used from one thread.
class RenderDevice {
 public:
  virtual ~RenderDevice() = default;
  // The renderer may not outlive the device.
  virtual std::unique_ptr<SceneRenderer> Load(std::unique_ptr<TrainedModel> model,
                                              const SceneGeometry& geometry,
                                              RenderPrecision precision) = 0;
};

// pool outlives it.
std::unique_ptr<RenderDevice> NewCpuRenderDevice(ThreadPool* pool);

}  // namespace nerf
