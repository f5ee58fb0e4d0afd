#include "engine/train/ray_step.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/trace.h"
#include "engine/batch/coarse_views.h"
#include "engine/config/step_size.h"
#include "engine/kernels/random_words.h"
#include "engine/kernels/ray_sampling.h"
#include "engine/train/schedule.h"

namespace nerf {
namespace {

constexpr int kRaysPerTask = 256;

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

Ray RayStep::PixelRay(const Pixel& pixel, int level) const {
  const LensCamera& camera = cameras_[pixel.view];
  if (level == 0) return kernels::PixelRay(camera, pixel.x, pixel.y, near_);
  const ReducedSize full = sizes_[pixel.view];
  const ReducedSize size = PictureSizeAt(level, full.width, full.height);
  const float scale_x = static_cast<float>(full.width) / static_cast<float>(size.width);
  const float scale_y = static_cast<float>(full.height) / static_cast<float>(size.height);
  Ray ray = LensRay(camera, (static_cast<float>(pixel.x) + 0.5f) * scale_x,
                    (static_cast<float>(pixel.y) + 0.5f) * scale_y);
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
  rays_.n_rays = batch.n_pixels;
  if (!DrawsPixels()) {
    const TraceSpan span("make rays");
    MakeRays(batch, &rays_.rays, &rays_.jitters);
  }
  rays_.times.resize(batch.pixels.size());
  for (size_t i = 0; i < batch.pixels.size(); ++i) rays_.times[i] = times_[batch.pixels[i].view];
  rays_.targets = batch.targets;
  rays_.backgrounds = batch.backgrounds;
  rays_.weights = batch.weights;
  rays_.views.resize(batch.pixels.size());
  std::transform(batch.pixels.begin(), batch.pixels.end(), rays_.views.begin(),
                 [](const Pixel& pixel) { return pixel.view; });
  last_result_ = RunRays(rays_);
  return *last_result_;
}

void RayStep::MakeRays(const PixelBatch& batch, std::vector<Ray>* rays,
                       std::vector<float>* jitters) const {
  const int n = batch.n_pixels;
  NERF_CHECK(n == 0 || !cameras_.empty());
  rays->resize(n);
  jitters->resize(n);
  const IndexRange own = OwnPixels(n, batch.fraction);
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
      const Pixel& pixel = batch.pixels[i];
      (*rays)[i] = PixelRay(pixel, batch.picture_level);
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
  return ray_count_.n_rays();
}

double RayStep::TimeFraction(double fraction) const { return nerf::ShareOfTime(config_, fraction); }

}  // namespace nerf
