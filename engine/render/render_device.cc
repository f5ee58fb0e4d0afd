#include "engine/render/render_device.h"

#include <cstring>
#include <utility>

#include "engine/kernels/view_rays.h"

namespace nerf {
namespace {

class CpuPictureRender final : public PictureRender {
 public:
  CpuPictureRender(ViewRender view, ThreadPool* pool) : view_(std::move(view)), pool_(pool) {}
  bool Advance(const std::function<bool()>& pause, const std::stop_token& stop) override {
    return view_.Advance(pool_, pause, stop);
  }
  bool finished() const override { return view_.finished(); }
  ViewPicture TakePicture() override { return Quantized(view_.TakeView()); }

 private:
  ViewRender view_;
  ThreadPool* const pool_;
};

class CpuSceneRenderer final : public SceneRenderer {
 public:
  CpuSceneRenderer(std::unique_ptr<TrainedModel> model, float near, ThreadPool* pool)
      : model_(std::move(model)), near_(near), pool_(pool) {}

  std::unique_ptr<PictureRender> Begin(const Camera& camera,
                                       const RenderOptions& options) override {
    return std::make_unique<CpuPictureRender>(ViewRender(*model_, near_, camera, options), pool_);
  }
  Aabb OccupiedBox() const override { return model_->OccupiedBox(); }
  std::optional<double> OccupiedShare() const override { return model_->OccupiedShare(); }

 private:
  const std::unique_ptr<const TrainedModel> model_;
  const float near_;
  ThreadPool* const pool_;
};

class CpuRenderDevice final : public RenderDevice {
 public:
  explicit CpuRenderDevice(ThreadPool* pool) : pool_(pool) {}
  std::unique_ptr<SceneRenderer> Load(std::unique_ptr<TrainedModel> model,
                                      const SceneGeometry& geometry, RenderPrecision) override {
    return std::make_unique<CpuSceneRenderer>(std::move(model), geometry.near, pool_);
  }

 private:
  ThreadPool* const pool_;
};

}  // namespace

ViewPicture Quantized(RenderedView&& view) {
  ViewPicture picture{{view.width, view.height, 4, {}}, std::move(view.depths)};
  picture.rgba.pixels.resize(4 * view.colors.size());
  for (size_t i = 0; i < view.colors.size(); ++i) {
    const uint32_t rgba = view.straight_alpha
                              ? kernels::PackStraightRgba(view.colors[i], view.opacities[i])
                              : kernels::PackRgba(view.colors[i], view.opacities[i]);
    std::memcpy(picture.rgba.pixels.data() + 4 * i, &rgba, sizeof(rgba));
  }
  return picture;
}

ImageU8 ColorsOf(const ViewPicture& picture) {
  const std::vector<uint8_t>& rgba = picture.rgba.pixels;
  ImageU8 image{picture.rgba.width, picture.rgba.height, 3, {}};
  image.pixels.resize(rgba.size() / 4 * 3);
  for (size_t i = 0; i < rgba.size() / 4; ++i)
    std::memcpy(image.pixels.data() + 3 * i, rgba.data() + 4 * i, 3);
  return image;
}

bool SceneRenderer::Render(const Camera& camera, const RenderOptions& options,
                           const std::stop_token& stop, ViewPicture* picture) {
  const std::unique_ptr<PictureRender> work = Begin(camera, options);
  while (!work->finished()) {
    if (!work->Advance(nullptr, stop)) return false;
  }
  *picture = work->TakePicture();
  return true;
}

std::unique_ptr<RenderDevice> NewCpuRenderDevice(ThreadPool* pool) {
  return std::make_unique<CpuRenderDevice>(pool);
}

}  // namespace nerf
