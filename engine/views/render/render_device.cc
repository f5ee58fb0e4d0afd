#include "engine/views/render/render_device.h"

#include <cstring>
#include <utility>

#include "engine/field/kernels/view_rays.h"

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

ViewPicture MeanOfPictures(std::vector<ViewPicture> of_rays, bool straight_alpha) {
  ViewPicture& mean = of_rays.front();  // pixel i is read before it is written
  const auto n = static_cast<uint32_t>(of_rays.size());
  if (n == 1) return std::move(mean);
  std::vector<float> depths;
  for (size_t i = 0; i < mean.depths.size(); ++i) {
    uint32_t colors[3] = {}, opacity = 0, weights = 0;
    depths.clear();
    for (const ViewPicture& picture : of_rays) {
      const uint8_t* const rgba = picture.rgba.pixels.data() + 4 * i;
      const uint32_t weight = straight_alpha ? rgba[3] : 1;
      for (int channel = 0; channel < 3; ++channel) colors[channel] += weight * rgba[channel];
      opacity += rgba[3];
      weights += weight;
      if (picture.depths[i] > 0) depths.push_back(picture.depths[i]);
    }
    uint8_t* const rgba = mean.rgba.pixels.data() + 4 * i;
    for (int channel = 0; channel < 3; ++channel) {
      rgba[channel] =
          weights > 0 ? static_cast<uint8_t>((colors[channel] + weights / 2) / weights) : 0;
    }
    rgba[3] = static_cast<uint8_t>((opacity + n / 2) / n);
    const bool has_depth =
        static_cast<float>(opacity) >= kernels::kMinDepthOpacity * 255 * static_cast<float>(n);
    mean.depths[i] = has_depth ? MiddleDepth(depths) : 0;
  }
  return std::move(mean);
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
