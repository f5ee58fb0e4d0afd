#include <algorithm>
#include <limits>
#include <utility>

#include "common/status_macros.h"
#include "engine/base/philox.h"
#include "engine/kernels/activation.h"
#include "engine/kernels/color_loss.h"
#include "engine/kernels/composite.h"
#include "engine/methods/mlp/describe/mlp_memory.h"
#include "engine/methods/mlp/describe/mlp_settings.h"
#include "engine/methods/mlp/hierarchical.h"
#include "engine/methods/mlp/parameters.h"
#include "engine/methods/mlp/steps.h"
#include "engine/parameters/update_count.h"
#include "engine/train/schedule.h"

namespace nerf {
namespace {

constexpr int kRaysPerChunk = 4;
// Key of the random numbers of samples, apart from those of the rays' jitters.
constexpr uint64_t kSampleKey = uint64_t{0x6d6c7073} << 32;

struct ChunkSums {
  double loss = 0, squared_error = 0;
  int64_t n_samples = 0;
};

// The samples of a few rays in one network, forward and backward.
struct StepSamples {
  explicit StepSamples(const MlpNetwork& network) : evaluator(network, /*with_backward=*/true) {}

  void Resize(int rays, int per_ray) {
    n_rays = rays;
    n_per_ray = per_ray;
    const size_t n = static_cast<size_t>(rays) * per_ray;
    for (std::vector<float>* column : {&ts, &lengths, &sigmas, &alphas, &weights, &grad_sigmas})
      column->resize(n);
    for (std::vector<Vec3>* column : {&positions, &colors, &grad_colors}) column->resize(n);
    ray_of.resize(n);
    for (size_t i = 0; i < n; ++i) ray_of[i] = static_cast<int>(i) / per_ray;
    evaluator.Reserve(static_cast<int>(n), 0);
  }
  int size() const { return n_rays * n_per_ray; }

  void Forward(const Ray* rays) {
    Vec3 directions[kRaysPerChunk];
    for (int r = 0; r < n_rays; ++r) {
      directions[r] = rays[r].direction;
      SampleLengths(n_per_ray, ts.data() + r * n_per_ray, lengths.data() + r * n_per_ray);
    }
    for (int i = 0; i < size(); ++i)
      positions[i] = rays[ray_of[i]].origin + rays[ray_of[i]].direction * ts[i];
    evaluator.Begin(n_rays, directions);
    evaluator.Density(0, size(), positions.data(), sigmas.data());
    evaluator.Color(size(), ray_of.data(), colors.data());
    kernels::cpu::Alphas(
        {.n = size(), .sigmas = sigmas.data(), .deltas = lengths.data(), .alphas = alphas.data()});
    float transmittance = 1;
    for (int i = 0; i < size(); ++i) {
      if (i % n_per_ray == 0) transmittance = 1;
      weights[i] = kernels::CompositeForwardStep(alphas[i], &transmittance);
    }
  }

  // Computes the loss of the composited rays [first, first + n_rays) of the batch and its
  // gradients. Returns the sum over rays of the squared error, mean over channels.
  double LossAndGradients(const TrainConfig& config, const RayBatch& batch, const int* rays,
                          double* loss_sum) {
    const kernels::LossShape shape = LossShapeOf(config);
    const float scale = config.loss_scale / (3.0f * batch.n_rays);
    double squared_error = 0;
    for (int r = 0; r < n_rays; ++r) {
      const int begin = r * n_per_ray, end = begin + n_per_ray;
      Vec3 color, grad_color;
      float transmittance = 1;
      for (int i = begin; i < end; ++i) {
        color = color + colors[i] * weights[i];
        transmittance *= 1 - alphas[i];
      }
      color = color + batch.backgrounds[rays[r]] * transmittance;
      const float weight = batch.weights.empty() ? 1.0f : batch.weights[rays[r]];
      for (int channel = 0; channel < 3; ++channel) {
        const float residual = color[channel] - batch.targets[rays[r]][channel];
        const kernels::ChannelLoss loss = kernels::LossOfResidual(shape, residual);
        grad_color[channel] = scale * weight * loss.derivative;
        *loss_sum += weight * loss.value / 3.0;
        squared_error += static_cast<double>(weight) * residual * residual / 3.0;
      }
      transmittance = 1;
      float behind = Dot(grad_color, color);
      for (int i = begin; i < end; ++i) {
        grad_sigmas[i] = kernels::CompositeBackwardStep(
            Dot(grad_color, colors[i]), alphas[i], weights[i], lengths[i], &transmittance, &behind);
        grad_colors[i] = grad_color * weights[i];
      }
    }
    return squared_error;
  }

  void Backward(float* gradients) {
    evaluator.Backward(size(), ray_of.data(), grad_sigmas.data(), grad_colors.data(), gradients);
  }

  MlpEvaluator evaluator;
  int n_rays = 0, n_per_ray = 0;
  std::vector<float> ts, lengths, sigmas, alphas, weights, grad_sigmas;
  std::vector<Vec3> positions, colors, grad_colors;
  std::vector<int> ray_of;
};

// Coarse and fine network as in the paper: both losses are added, and no gradient goes through the
// places of the fine samples.
class MlpPairStep final : public RayStep {
 public:
  MlpPairStep(const TrainConfig& config, const SceneGeometry& geometry, std::span<const View> views,
              ThreadPool* pool)
      : RayStep(config, geometry, views, pool),
        config_(config),
        geometry_(geometry),
        pool_(pool),
        placement_(
            MlpPlacementOf(geometry.box.Scaled(static_cast<float>(1 << (geometry.n_levels - 1))))),
        parameters_(config) {
    for (const View& view : views) axes_.push_back(view.camera.camera_to_world.Column(2) * -1.0f);
    for (int thread = 0; thread < pool->n_threads(); ++thread) {
      coarse_.push_back(std::make_unique<StepSamples>(parameters_.Network(0, placement_)));
      fine_.push_back(std::make_unique<StepSamples>(parameters_.Network(1, placement_)));
    }
  }

  StepResult RunRays(const RayBatch& batch) override;
  void Save(TensorFile* file) const override {
    parameters_.Save(file);
    SaveUpdateCount(n_updates_, file);
    ray_count().Save(file);
  }
  absl::Status Load(const TensorFile& file) override {
    NERF_ASSIGN_OR_RETURN(const RayCountState rays, RayCountController::Load(file));
    NERF_ASSIGN_OR_RETURN(const uint32_t n_updates, LoadUpdateCount(file));
    NERF_RETURN_IF_ERROR(parameters_.Load(file));
    n_updates_ = n_updates;
    ray_count().Restore(rays);
    return absl::OkStatus();
  }
  void SaveModel(TensorFile* file) const override { parameters_.SaveModel(file); }
  absl::Status Initialize(const TensorFile& file) override {
    n_updates_ = 0;
    return parameters_.Initialize(file);
  }
  std::unique_ptr<TrainedModel> Snapshot() const override {
    return NewMlpPairModel(config_, geometry_, parameters_.Evaluation());
  }

 protected:
  // t_near and t_far become where the samples of a ray lie; none lie on a ray with t_near > t_far.
  void MakeRays(const PixelBatch& batch, std::vector<Ray>* rays,
                std::vector<float>* jitters) const override {
    RayStep::MakeRays(batch, rays, jitters);
    for (int i = 0; i < batch.n_pixels; ++i) {
      const RayBounds bounds =
          BoundsOfRay(config_, geometry_, (*rays)[i], axes_[batch.pixels[i].view]);
      (*rays)[i].t_near = bounds.t_near;
      (*rays)[i].t_far = bounds.t_far;
    }
  }

 private:
  void RunChunk(const RayBatch& batch, int begin, int end, int lane, int thread, ChunkSums* sums);

  const TrainConfig config_;
  const SceneGeometry geometry_;
  ThreadPool* const pool_;
  const MlpPlacement placement_;
  std::vector<Vec3> axes_;  // where the views' cameras look
  MlpParameters parameters_;
  std::vector<std::unique_ptr<StepSamples>> coarse_, fine_;  // one a thread
  uint32_t n_updates_ = 0;
};

void MlpPairStep::RunChunk(const RayBatch& batch, int begin, int end, int lane, int thread,
                           ChunkSums* sums) {
  Ray rays[kRaysPerChunk];
  int indices[kRaysPerChunk], n_rays = 0;
  for (int r = begin; r < end; ++r) {
    if (!(batch.rays[r].t_near < batch.rays[r].t_far)) continue;
    rays[n_rays] = batch.rays[r];
    indices[n_rays++] = r;
  }
  if (n_rays == 0) return;
  const int n_coarse = CoarseSamples(config_), n_fine = FineSamples(config_);
  StepSamples &coarse = *coarse_[thread], &fine = *fine_[thread];
  coarse.Resize(n_rays, n_coarse);
  fine.Resize(n_rays, n_fine);
  std::vector<float> randoms(n_fine);
  for (int r = 0; r < n_rays; ++r) {
    for (int i = 0; i < n_fine; ++i) {
      const auto words = RandomWords(kSampleKey + config_.seed, RandomUse::kRayJitter, batch.step,
                                     static_cast<uint32_t>(indices[r] * n_fine + i));
      randoms[i] = UniformFloat(words[0]);
    }
    UniformSamples(rays[r].t_near, rays[r].t_far, n_coarse, randoms.data(),
                   coarse.ts.data() + r * n_coarse);
  }
  coarse.Forward(rays);
  for (int r = 0; r < n_rays; ++r) {
    const int n_added = n_fine - n_coarse;
    for (int i = 0; i < n_added; ++i) {
      const auto words = RandomWords(kSampleKey + config_.seed, RandomUse::kRayJitter, batch.step,
                                     static_cast<uint32_t>(indices[r] * n_fine + n_coarse + i));
      randoms[i] = (static_cast<float>(i) + UniformFloat(words[1])) / static_cast<float>(n_added);
    }
    ImportanceSamples(n_coarse, coarse.ts.data() + r * n_coarse,
                      coarse.weights.data() + r * n_coarse, n_added, randoms.data(),
                      fine.ts.data() + r * n_fine);
  }
  fine.Forward(rays);
  coarse.LossAndGradients(config_, batch, indices, &sums->loss);
  sums->squared_error += fine.LossAndGradients(config_, batch, indices, &sums->loss);
  coarse.Backward(parameters_.gradients(lane, 0));
  fine.Backward(parameters_.gradients(lane, 1));
  sums->n_samples += coarse.size() + fine.size();
}

StepResult MlpPairStep::RunRays(const RayBatch& batch) {
  std::vector<ChunkSums> sums(kMlpGradientLanes);
  const int n_chunks = (batch.n_rays + kRaysPerChunk - 1) / kRaysPerChunk;
  pool_->ParallelFor(kMlpGradientLanes, [&](int64_t lane, int thread) {
    for (int chunk = static_cast<int>(lane); chunk < n_chunks; chunk += kMlpGradientLanes) {
      const int begin = chunk * kRaysPerChunk;
      RunChunk(batch, begin, std::min(begin + kRaysPerChunk, batch.n_rays), static_cast<int>(lane),
               thread, &sums[lane]);
    }
  });
  StepResult result;
  result.n_rays = batch.n_rays;
  for (const ChunkSums& lane : sums) {
    result.loss += lane.loss / batch.n_rays;
    result.squared_error += lane.squared_error / batch.n_rays;
    result.n_marched += lane.n_samples;
    result.n_trained += lane.n_samples;
  }
  if (!parameters_.Update(batch.learning_rate, static_cast<int>(++n_updates_), pool_))
    result.loss = std::numeric_limits<double>::quiet_NaN();
  return result;
}

}  // namespace

std::unique_ptr<RayStep> NewMlpPairStep(const TrainConfig& config, const SceneGeometry& geometry,
                                        std::span<const View> views, ThreadPool* pool) {
  return std::make_unique<MlpPairStep>(config, geometry, views, pool);
}

}  // namespace nerf
