#include "engine/train/ray_step.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/config/step_size.h"
#include "engine/base/trace.h"
#include "engine/field/kernels/random_words.h"
#include "engine/field/kernels/ray_sampling.h"
#include "engine/train/batch/coarse_views.h"
#include "engine/train/schedule.h"

namespace nerf {
namespace {

constexpr int kRaysPerTask = 256;

// of_rays[r] = value(of_pixels[r / rays_per_pixel]).
template <typename Pixels, typename T, typename Value>
void RepeatForRays(const Pixels& of_pixels, int rays_per_pixel, std::vector<T>* of_rays,
                   const Value& value) {
  of_rays->resize(of_pixels.size() * rays_per_pixel);
  auto ray = of_rays->begin();
  for (const auto& of_pixel : of_pixels) {
    for (int i = 0; i < rays_per_pixel; ++i) *ray++ = value(of_pixel);
  }
}

}  // namespace

RayStep::RayStep(const TrainConfig& config, const SceneGeometry& geometry,
                 std::span<const View> views, ThreadPool* pool)
    : config_(config),
      near_(geometry.near),
      far_(geometry.far),
      pool_(pool),
      ray_count_({config.initial_rays, StepSizeOf(config).max_rays}) {
  for (const View& view : views) {
    cameras_.push_back(LensOf(view.camera));
    sizes_.push_back({view.camera.width, view.camera.height});
    times_.push_back(view.camera.time);
  }
}

Ray RayStep::PixelRay(const Pixel& pixel, int level, PixelOffset offset) const {
  const LensCamera& camera = cameras_[pixel.view];
  if (level == 0) return kernels::PixelRay(camera, pixel.x, pixel.y, near_, offset);
  const ReducedSize full = sizes_[pixel.view];
  const ReducedSize size = PictureSizeAt(level, full.width, full.height);
  const float scale_x = static_cast<float>(full.width) / static_cast<float>(size.width);
  const float scale_y = static_cast<float>(full.height) / static_cast<float>(size.height);
  Ray ray = LensRay(camera, (static_cast<float>(pixel.x) + 0.5f + offset.x) * scale_x,
                    (static_cast<float>(pixel.y) + 0.5f + offset.y) * scale_y);
  ray.t_near = near_;
  return ray;
}

StepResult RayStep::Run(const PixelBatch& batch) {
  rays_.step = batch.step;
  rays_.fraction = batch.fraction;
  rays_.learning_rate = LearningRate(config_, batch.step, batch.fraction) * batch.rate_factor;
  rays_.step_scale = StepScale(config_, batch.fraction);
  rays_.distortion = DistortionWeight(config_, batch.fraction);
  rays_.target_samples = TargetSamples(config_, batch.fraction);
  const int rays_per_pixel = TrainedRaysPerPixel(config_, batch.fraction);
  rays_.rays_per_pixel = rays_per_pixel;
  rays_.n_rays = rays_per_pixel * batch.n_pixels;
  if (!DrawsPixels()) {
    const TraceSpan span("make rays");
    MakeRays(batch, &rays_.rays, &rays_.jitters);
  }
  RepeatForRays(batch.pixels, rays_per_pixel, &rays_.times,
                [&](const Pixel& p) { return times_[p.view]; });
  RepeatForRays(batch.pixels, rays_per_pixel, &rays_.views, [](const Pixel& p) { return p.view; });
  const auto same = [](const auto& of_pixel) { return of_pixel; };
  RepeatForRays(batch.targets, rays_per_pixel, &rays_.targets, same);
  RepeatForRays(batch.backgrounds, rays_per_pixel, &rays_.backgrounds, same);
  RepeatForRays(batch.weights, rays_per_pixel, &rays_.weights, same);
  last_result_ = RunRays(rays_);
  return *last_result_;
}

void RayStep::MakeRays(const PixelBatch& batch, std::vector<Ray>* rays,
                       std::vector<float>* jitters) const {
  const int rays_per_pixel = TrainedRaysPerPixel(config_, batch.fraction);
  const int n = rays_per_pixel * batch.n_pixels;
  NERF_CHECK(n == 0 || !cameras_.empty());
  rays->resize(n);
  jitters->resize(n);
  const IndexRange pixels = OwnPixels(batch.n_pixels, batch.fraction);
  const IndexRange own{rays_per_pixel * pixels.begin, rays_per_pixel * pixels.end};
  const int n_own = own.end - own.begin;
  pool_->ParallelFor((n_own + kRaysPerTask - 1) / kRaysPerTask, [&](int64_t task, int) {
    const int begin = own.begin + static_cast<int>(task) * kRaysPerTask;
    const int end = std::min(own.end, begin + kRaysPerTask);
    uint32_t words[4][kRaysPerTask];
    kernels::cpu::FillRandomWords({.seed = config_.seed,
                                   .use = RandomUse::kRayJitter,
                                   .step = batch.step,
                                   .first = static_cast<uint32_t>(begin),
                                   .n = end - begin,
                                   .words = {words[0], words[1], words[2], words[3]}});
    for (int i = begin; i < end; ++i) {
      (*rays)[i] = PixelRay(batch.pixels[i / rays_per_pixel], batch.picture_level,
                            OffsetInPixel(i % rays_per_pixel, rays_per_pixel));
      (*rays)[i].t_far = far_;
      (*jitters)[i] = UniformFloat(words[0][i - begin]);  // that of kernels::RayJitter
    }
  });
}

int RayStep::NextPixels(double fraction) {
  if (last_result_.has_value()) {
    ray_count_.Update(*last_result_, TargetSamples(config_, fraction));
    last_result_.reset();
  }
  return ray_count_.n_rays() / TrainedRaysPerPixel(config_, fraction);
}

double RayStep::TimeFraction(double fraction) const { return nerf::ShareOfTime(config_, fraction); }

}  // namespace nerf
