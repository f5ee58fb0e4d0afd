#include "engine/methods/mlp/pair_samples.h"

#include <array>

#include "engine/base/philox.h"
#include "engine/field/kernels/activation.h"
#include "engine/field/kernels/color_loss.h"
#include "engine/field/kernels/composite.h"
#include "engine/methods/mlp/hierarchical.h"
#include "engine/train/schedule.h"

namespace nerf {
namespace {

// Key of the random numbers of samples, apart from those of the rays' jitters.
constexpr uint64_t kSampleKey = uint64_t{0x6d6c7073} << 32;

// Two numbers for sample i of a ray.
std::array<uint32_t, 4> WordsOf(const TrainConfig& config, const RayBatch& batch, int index,
                                int i) {
  return RandomWords(kSampleKey + config.seed, RandomUse::kRayJitter, batch.step,
                     static_cast<uint32_t>(index * FineSamples(config) + i));
}

}  // namespace

void PairSamples::Resize(int rays, int per_ray) {
  n_rays = rays;
  n_per_ray = per_ray;
  const size_t n = static_cast<size_t>(rays) * per_ray;
  for (std::vector<float>* column : {&ts, &lengths, &sigmas, &alphas, &weights, &grad_sigmas})
    column->resize(n);
  for (std::vector<Vec3>* column : {&positions, &colors, &grad_colors}) column->resize(n);
  ray_of.resize(n);
  for (size_t i = 0; i < n; ++i) ray_of[i] = static_cast<int>(i) / per_ray;
}

void PairSamples::Place(const Ray& ray, int r) {
  const int begin = r * n_per_ray;
  SampleLengths(n_per_ray, ts.data() + begin, lengths.data() + begin);
  for (int i = begin; i < begin + n_per_ray; ++i) positions[i] = ray.origin + ray.direction * ts[i];
}

void PairSamples::PlaceCoarse(const TrainConfig& config, const RayBatch& batch, int r, int index) {
  const Ray& ray = batch.rays[index];
  std::vector<float> randoms(n_per_ray);
  for (int i = 0; i < n_per_ray; ++i)
    randoms[i] = UniformFloat(WordsOf(config, batch, index, i)[0]);
  UniformSamples(ray.t_near, ray.t_far, n_per_ray, randoms.data(), ts.data() + r * n_per_ray);
  Place(ray, r);
}

void PairSamples::PlaceFine(const TrainConfig& config, const RayBatch& batch, int r, int index,
                            const PairSamples& coarse) {
  const int n_coarse = coarse.n_per_ray, n_added = n_per_ray - n_coarse;
  std::vector<float> randoms(n_added);
  for (int i = 0; i < n_added; ++i) {
    const float share = UniformFloat(WordsOf(config, batch, index, n_coarse + i)[1]);
    randoms[i] = (static_cast<float>(i) + share) / static_cast<float>(n_added);
  }
  ImportanceSamples(n_coarse, coarse.ts.data() + r * n_coarse, coarse.weights.data() + r * n_coarse,
                    n_added, randoms.data(), ts.data() + r * n_per_ray);
  Place(batch.rays[index], r);
}

void PairSamples::Composite(int r) {
  const int begin = r * n_per_ray;
  kernels::cpu::Alphas({.n = n_per_ray,
                        .sigmas = sigmas.data() + begin,
                        .deltas = lengths.data() + begin,
                        .alphas = alphas.data() + begin});
  float transmittance = 1;
  for (int i = begin; i < begin + n_per_ray; ++i)
    weights[i] = kernels::CompositeForwardStep(alphas[i], &transmittance);
}

double PairSamples::LossAndGradients(const TrainConfig& config, const RayBatch& batch, int r,
                                     int index, double* loss_sum) {
  const kernels::LossShape shape = LossShapeOf(config);
  const float scale = config.loss_scale / (3.0f * batch.n_rays);
  const int begin = r * n_per_ray, end = begin + n_per_ray;
  double squared_error = 0;
  Vec3 color, grad_color;
  float transmittance = 1;
  for (int i = begin; i < end; ++i) {
    color = color + colors[i] * weights[i];
    transmittance *= 1 - alphas[i];
  }
  color = color + batch.backgrounds[index] * transmittance;
  const float weight = batch.weights.empty() ? 1.0f : batch.weights[index];
  for (int channel = 0; channel < 3; ++channel) {
    const float residual = color[channel] - batch.targets[index][channel];
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
  return squared_error;
}

std::vector<int> RaysWithSamples(const RayBatch& batch, int begin, int end) {
  std::vector<int> indices;
  for (int r = begin; r < end; ++r) {
    if (batch.rays[r].t_near < batch.rays[r].t_far) indices.push_back(r);
  }
  return indices;
}

}  // namespace nerf
