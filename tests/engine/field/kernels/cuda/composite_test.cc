#include "engine/field/kernels/composite.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "engine/field/kernels/distortion.h"
#include "engine/field/kernels/hash_encoding.h"
#include "tests/testing/cuda_test.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/reference/composite.h"
#include "tests/testing/reference/distortion.h"

namespace nerf::kernels {
namespace {

// Loss of a ray's color in double, averaged over the channels.
double Loss(const LossShape& shape, const double (&residual)[3]) {
  double loss = 0;
  for (double r : residual) {
    const double size = std::abs(r);
    const bool linear = size > shape.huber_delta;
    loss += (linear ? shape.huber_delta * (size - 0.5 * shape.huber_delta) : 0.5 * r * r) / 3;
  }
  return loss;
}

constexpr MarchSteps kSceneSteps{.step = 0.01f, .cone = 1.0f / 128};  // log beyond 1.28
constexpr float kStepScale = 2;

// CompositeRays with the given numbers of samples, which are stored in reverse order.
struct CompositeRays {
  explicit CompositeRays(const std::vector<uint32_t>& n_samples) {
    for (uint32_t n : n_samples) offsets.push_back(offsets.back() + n);
    const size_t n = offsets.back(), n_rays = n_samples.size();
    outputs = RandomFloats(n, -2, 2, 1);  // before the sigmoid, three a sample follow
    exponents = RandomFloats(n, -1, 3, 2);
    deltas = RandomFloats(n, 0.02f, 0.2f, 3);
    for (uint32_t r = 0; r + 1 < offsets.size(); ++r) {
      float t = 0.5f;
      for (uint32_t k = offsets[r]; k < offsets[r + 1]; ++k) t_middles.push_back(t += deltas[k]);
    }
    color_outputs = RandomPoints(n, -2, 2, 4);
    targets = RandomPoints(n_rays, 0, 1, 5);
    backgrounds = RandomPoints(n_rays, 0, 1, 6);
  }
  std::vector<uint32_t> offsets{0};
  std::vector<float> outputs, exponents, deltas, t_middles;
  float distortion = 0;  // weight in the loss
  std::vector<Vec3> color_outputs, targets, backgrounds;

  // With extras: rays of two views, with weights, and depths of every second ray.
  void AddExtras() {
    const size_t n_rays = targets.size();
    ray_weights = RandomFloats(n_rays, 0, 1, 7);
    for (size_t r = 0; r < n_rays; ++r) views.push_back(static_cast<int32_t>(r % 2));
    for (size_t r = 0; r < n_rays; ++r) depths.push_back(r % 2 == 0 ? 0 : 1);
    log_gains = {0.3, -0.2, 0.1, -0.4, 0.2, 0.5};
    depth_weight = 0.7f;
  }
  bool HasExtras() const { return !views.empty(); }
  // Four rays for each pixel, whose target and background they have. The number of rays is a
  // multiple of four. Not with extras.
  void PutInFours() {
    rays_per_pixel = 4;
    for (size_t r = 0; r < targets.size(); ++r) {
      targets[r] = targets[r / 4 * 4];
      backgrounds[r] = backgrounds[r / 4 * 4];
    }
  }
  uint32_t rays_per_pixel = 1;
  std::vector<float> ray_weights, depths;
  std::vector<int32_t> views;
  std::vector<double> log_gains;  // [2 views][3]
  float depth_weight = 0;

  double DistortionOf(size_t ray, const std::vector<double>& weights) const {
    std::vector<double> places;
    for (uint32_t k = offsets[ray]; k < offsets[ray + 1]; ++k)
      places.push_back(DistortionCoordinate(kSceneSteps, t_middles[k]));
    return reference::Distortion(weights, places, kStepScale * kDistortionPerStep);
  }

  double WeightOf(size_t ray) const { return HasExtras() ? ray_weights[ray] : 1; }
  double DepthLoss(size_t ray, const std::vector<double>& weights) const {
    if (!HasExtras() || depths[ray] <= 0) return 0;
    double near = 0;
    for (uint32_t k = offsets[ray]; k < offsets[ray + 1]; ++k) {
      const double away = std::abs(t_middles[k] - depths[ray]) / (0.1 * depths[ray]);
      near += weights[k - offsets[ray]] * std::max(0.0, 1 - away);
    }
    return depth_weight * (1 - near);
  }

  // Sum over the rays of the loss, from (color outputs, exponent) of each sample [n][4].
  double TotalLoss(const LossShape& shape, const std::vector<double>& variables,
                   double* squared_error) const {
    double total = 0;
    *squared_error = 0;
    double pixel[3] = {};  // the sum of its rays' residuals
    for (size_t r = 0; r + 1 < offsets.size(); ++r) {
      std::vector<double> sigmas, lengths;
      for (uint32_t k = offsets[r]; k < offsets[r + 1]; ++k) {
        sigmas.push_back(std::exp(variables[4 * k + 3]));
        lengths.push_back(deltas[k]);
      }
      const int bounds[] = {0, static_cast<int>(sigmas.size())};
      const auto composite = reference::CompositeForward(bounds, sigmas, lengths);
      double residual[3];
      for (int c = 0; c < 3; ++c) {
        double color = 0;
        for (uint32_t k = offsets[r]; k < offsets[r + 1]; ++k)
          color += composite.weights[k - offsets[r]] / (1 + std::exp(-variables[4 * k + c]));
        if (HasExtras()) color *= std::exp(log_gains[3 * views[r] + c]);
        color += composite.ray_transmittance[0] * backgrounds[r][c];
        pixel[c] = (r % rays_per_pixel == 0 ? 0 : pixel[c]) + color - targets[r][c];
        residual[c] = pixel[c] / rays_per_pixel;
      }
      total += distortion * DistortionOf(r, composite.weights) + DepthLoss(r, composite.weights);
      if ((r + 1) % rays_per_pixel != 0) continue;
      // The loss of the pixel counts once for each of its rays.
      const double weight = rays_per_pixel * WeightOf(r);
      total += weight * Loss(shape, residual);
      for (const double of_channel : residual)
        *squared_error += weight * of_channel * of_channel / 3;
    }
    return total;
  }
};

class CudaCompositeTest : public CudaTest {
 protected:
  struct Result {
    std::vector<float> grads;
    std::vector<int64_t> grad_log_gains;
    std::vector<float> errors;
    double loss = 0, squared_error = 0;
  };
  Result Run(const CompositeRays& rays, const LossShape& shape, float scale,
             float near_gradients = 0) {
    const auto n = static_cast<uint32_t>(rays.deltas.size());
    std::vector<uint32_t> rows(n);
    std::vector<float> alphas(n), deltas(n), sigmas(n), weights(n), t_middles(n);
    std::vector<Vec3> colors(n);
    for (size_t r = 0; r + 1 < rays.offsets.size(); ++r) {
      float transmittance = 1;
      for (uint32_t k = rays.offsets[r]; k < rays.offsets[r + 1]; ++k) {
        const uint32_t row = rows[k] = n - 1 - k;
        sigmas[row] = std::exp(rays.exponents[k]);
        deltas[row] = rays.deltas[k];
        t_middles[row] = rays.t_middles[k];
        alphas[row] = -std::expm1(-sigmas[row] * deltas[row]);
        weights[row] = CompositeForwardStep(alphas[row], &transmittance);
        for (int c = 0; c < 3; ++c) colors[k][c] = 1 / (1 + std::exp(-rays.color_outputs[k][c]));
      }
    }
    const DeviceArray<uint32_t> n_rays({static_cast<uint32_t>(rays.targets.size())}),
        device_offsets(rays.offsets), device_rows(rows);
    const DeviceArray<float> device_alphas(alphas), device_deltas(deltas), device_sigmas(sigmas),
        device_weights(weights), device_t_middles(t_middles), device_scale({scale}),
        device_step_scale({kStepScale}), device_distortion({rays.distortion});
    const DeviceArray<Vec3> device_colors(colors), targets(rays.targets),
        backgrounds(rays.backgrounds);
    DeviceArray<float> grads(size_t{4} * n);
    DeviceArray<double> losses(2 * cuda::kLossBlocks);
    std::vector<Vec3> host_gains(2);
    for (size_t i = 0; i < rays.log_gains.size(); ++i)
      host_gains[i / 3][static_cast<int>(i % 3)] = static_cast<float>(std::exp(rays.log_gains[i]));
    const DeviceArray<Vec3> gains(host_gains);
    const DeviceArray<float> ray_weights(rays.ray_weights), depths(rays.depths);
    const DeviceArray<int32_t> views(rays.views);
    DeviceArray<int64_t> grad_log_gains(6);
    DeviceArray<float> errors(rays.targets.size());
    cuda::CompositeLossExtras extras;
    if (rays.HasExtras()) {
      extras = {.ray_weights = ray_weights.data(),
                .views = views.data(),
                .view_gains = gains.data(),
                .grad_log_gains = grad_log_gains.data(),
                .depths = depths.data(),
                .depth_weight = rays.depth_weight,
                .ray_errors = errors.data()};
    }
    extras.near_gradients = near_gradients;
    const DeviceArray<uint32_t> rays_per_pixel({rays.rays_per_pixel});
    if (rays.rays_per_pixel > 1) extras.rays_per_pixel = rays_per_pixel.data();
    cuda::CompositeLoss({.ray_capacity = static_cast<uint32_t>(rays.targets.size()),
                         .n_rays = n_rays.data(),
                         .ray_offsets = device_offsets.data(),
                         .rows = device_rows.data(),
                         .alphas = device_alphas.data(),
                         .deltas = device_deltas.data(),
                         .sigmas = device_sigmas.data(),
                         .weights = device_weights.data(),
                         .t_middles = device_t_middles.data(),
                         .steps = kSceneSteps,
                         .step_scale = device_step_scale.data(),
                         .colors = device_colors.data(),
                         .targets = targets.data(),
                         .backgrounds = backgrounds.data(),
                         .gradient_scale = device_scale.data(),
                         .loss = shape,
                         .distortion = device_distortion.data(),
                         .grads = grads.data(),
                         .losses = losses.data(),
                         .extras = extras},
                        stream_);
    Result result;
    result.grads = grads.Download(stream_);
    result.grad_log_gains = grad_log_gains.Download(stream_);
    result.errors = errors.Download(stream_);
    const std::vector<double> sums = losses.Download(stream_);
    for (int b = 0; b < cuda::kLossBlocks; ++b) {
      result.loss += sums[2 * b];
      result.squared_error += sums[2 * b + 1];
    }
    return result;
  }
};
NERF_INSTANTIATE_CUDA_PLACES(CudaCompositeTest);

TEST_P(CudaCompositeTest, LossAgreesWithTheReferenceAndGradientsWithCentralDifferences) {
  struct Case {
    LossShape shape;
    float distortion = 0;
    bool has_extras = false, in_fours = false;
  };
  for (const auto& [shape, distortion, has_extras, in_fours] :
       {Case{}, Case{{.huber_delta = 0.1f}}, Case{{}, 0.5f}, Case{{}, 0.5f, true},
        Case{{}, 0.5f, false, true}}) {
    std::vector<uint32_t> n_samples = {0, 1, 2, 0, 17, 60, 5};
    if (in_fours) n_samples.push_back(9);
    CompositeRays rays(n_samples);
    rays.distortion = distortion;
    if (has_extras) rays.AddExtras();
    if (in_fours) rays.PutInFours();
    constexpr float kScale = 2;  // for the mean over the channels it would be a third
    const Result result = Run(rays, shape, kScale);
    std::vector<double> variables;
    for (size_t k = 0; k < rays.deltas.size(); ++k) {
      for (int c = 0; c < 3; ++c) variables.push_back(rays.color_outputs[k][c]);
      variables.push_back(rays.exponents[k]);
    }
    double squared_error, ignored;
    const double loss = rays.TotalLoss(shape, variables, &squared_error);
    EXPECT_NEAR(result.loss, loss, 1e-6 * loss);
    EXPECT_NEAR(result.squared_error, squared_error, 1e-6 * squared_error);
    constexpr double kDifference = 1e-5;
    for (size_t i = 0; i < variables.size(); ++i) {
      const double value = variables[i];
      variables[i] = value + kDifference;
      const double above = rays.TotalLoss(shape, variables, &ignored);
      variables[i] = value - kDifference;
      const double below = rays.TotalLoss(shape, variables, &ignored);
      variables[i] = value;
      // Sums of up to 60 samples in floats.
      ASSERT_NEAR(result.grads[i], 3 * kScale * (above - below) / (2 * kDifference), 2e-6) << i;
    }
    for (size_t i = 0; i < rays.log_gains.size(); ++i) {
      const double value = rays.log_gains[i];
      rays.log_gains[i] = value + kDifference;
      const double above = rays.TotalLoss(shape, variables, &ignored);
      rays.log_gains[i] = value - kDifference;
      const double below = rays.TotalLoss(shape, variables, &ignored);
      rays.log_gains[i] = value;
      ASSERT_NEAR(static_cast<double>(result.grad_log_gains[i]) / cuda::kFixedPointOne,
                  3 * kScale * (above - below) / (2 * kDifference), 4e-6)
          << i;
    }
  }
}

TEST_P(CudaCompositeTest, GradientsOfNearSamplesShrinkByTheSquareOfTheirDistance) {
  CompositeRays rays({3, 17, 60});
  rays.distortion = 0.5f;
  const std::vector<float> plain = Run(rays, {}, 2).grads, scaled = Run(rays, {}, 2, 1.0f).grads;
  int n_near = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    const float t = rays.t_middles[i / 4];
    n_near += t < 1;
    ASSERT_NEAR(scaled[i], plain[i] * (t < 1 ? t * t : 1), 1e-6f * std::abs(plain[i])) << i;
  }
  EXPECT_GT(n_near, 20);
  EXPECT_LT(n_near, static_cast<int>(plain.size()) - 20);
}

TEST_P(CudaCompositeTest, ErrorsOfRaysAreMeansOverTheChannels) {
  CompositeRays rays({0, 0, 0});
  rays.AddExtras();
  rays.depths.assign(3, 0);
  rays.targets = {{0.5f, 0.25f, 0}, {0, 0, 0}, {1, 1, 1}};
  rays.backgrounds = {{0.75f, 0, 0.25f}, {0, 0, 0}, {2, 1, 0.25f}};
  // What is brighter than white in a picture costs nothing.
  EXPECT_EQ(Run(rays, {}, 1).errors, (std::vector<float>{0.25f, 0, 0.25f}));
}

TEST_P(CudaCompositeTest, EveryRayOfManyCountsOnce) {
  // One ray, and more rays than kLossBlocks blocks of 256 have threads.
  for (uint32_t n_rays : {1u, cuda::kLossBlocks * 256u + 3}) {
    CompositeRays rays(std::vector<uint32_t>(n_rays, 0));
    for (uint32_t r = 0; r < n_rays; ++r) {
      rays.targets[r] = {0, 0, 0};
      rays.backgrounds[r] = {1, 1, 1};
    }
    const Result result = Run(rays, {}, 1);
    EXPECT_EQ(result.squared_error, n_rays);
    EXPECT_EQ(result.loss, 0.5 * n_rays);
  }
}

}  // namespace
}  // namespace nerf::kernels
