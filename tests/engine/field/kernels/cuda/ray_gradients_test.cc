#include "engine/field/kernels/ray_gradients.h"

#include <cmath>

#include "engine/field/kernels/hash_position_gradient.h"
#include "tests/testing/cuda_test.h"
#include "tests/testing/random_floats.h"

namespace nerf::kernels {
namespace {

class CudaRayGradientsTest : public CudaTest {};
NERF_INSTANTIATE_CUDA_PLACES(CudaRayGradientsTest);

// Rays with 0 to 6 samples, stored in reverse order, every seventh of them infinitely far away.
TEST_P(CudaRayGradientsTest, AreThoseOfTheHostsPositionGradientsForOneRayInFour) {
  constexpr uint32_t kRays = 601, kPeriod = 4;
  std::vector<uint32_t> offsets{0}, rows;
  for (uint32_t r = 0; r < kRays; ++r) offsets.push_back(offsets.back() + r % 7);
  const uint32_t n = offsets.back(), stride = n + 5;
  for (uint32_t k = 0; k < n; ++k) rows.push_back(n - 1 - k);
  const std::vector<Vec3> positions = RandomPoints(n, 0.25f, 0.75f, 1);
  const std::vector<float> t_middles = RandomFloats(n, 0.1f, 5, 2);
  std::vector<float> deltas(n, 0.1f);
  for (uint32_t row = 0; row < n; row += 7) deltas[row] = 0;
  const Vec3 scale = {0.5f, 0.25f, 0.75f};
  for (const auto& [n_features, contraction] : {std::pair{2, Contraction::kNone},
                                                {4, Contraction::kL2},
                                                {4, Contraction::kLinf},
                                                {4, Contraction::kPerspective}}) {
    const EncodedSpace space{
        contraction, {}, scale, {{}, {1, 0, 0}, {0, 0, 1}, {0, 1, 0}, 0.5f, 1.5f}};
    const HashGridShape shape = MakeHashGridShape(3, n_features, 10, 4, 30);
    const int width = shape.width();
    const std::vector<float> table = RandomFloats(shape.level_size() * 3, -1, 1, 3);
    const std::vector<float> grads = RandomFloats(size_t(width) * stride, -1, 1, 4);
    for (const uint32_t step : {0u, 5u}) {
      const DeviceArray<float> device_table(table), device_t(t_middles), device_deltas(deltas),
          device_grads(grads);
      const DeviceArray<Vec3> device_positions(positions);
      const DeviceArray<uint32_t> device_offsets(offsets), device_rows(rows), device_step({step}),
          n_rays({kRays});
      DeviceArray<RayGradient> gradients(kRays / kPeriod + 1);
      cuda::RayGradients({.shape = shape,
                          .table = device_table.data(),
                          .ray_capacity = kRays,
                          .n_rays = n_rays.data(),
                          .step = device_step.data(),
                          .period = kPeriod,
                          .ray_offsets = device_offsets.data(),
                          .rows = device_rows.data(),
                          .positions = device_positions.data(),
                          .t_middles = device_t.data(),
                          .deltas = device_deltas.data(),
                          .grad_features = device_grads.data(),
                          .stride = stride,
                          .space = space,
                          .gradients = gradients.data()},
                         stream_);
      const std::vector<RayGradient> found = gradients.Download(stream_);
      for (uint32_t j = 0; j < found.size(); ++j) {
        const uint32_t r = j * kPeriod + (kPeriod - step % kPeriod) % kPeriod;
        RayGradient expected;
        for (uint32_t k = r < kRays ? offsets[r] : 0; k < (r < kRays ? offsets[r + 1] : 0); ++k) {
          const uint32_t row = rows[k];
          if (deltas[row] == 0) continue;
          std::vector<float> features(width);
          for (int f = 0; f < width; ++f)
            features[f] = grads[(size_t{stride} * (f / 2) + k) * 2 + f % 2];
          Vec3 gradient;
          cpu::HashPositionGradient(
              HashPositionGradientParams<float>{.shape = &shape,
                                                .table = table.data(),
                                                .n = 1,
                                                .positions = &positions[row],
                                                .grad_features = features.data(),
                                                .stride = width,
                                                .grad_positions = &gradient});
          gradient = space.Backward(positions[row], gradient);
          expected.origin = expected.origin + gradient;
          expected.direction = expected.direction + gradient * t_middles[row];
        }
        for (int axis = 0; axis < 3; ++axis) {
          ASSERT_NEAR(found[j].origin[axis], expected.origin[axis], 1e-3) << j;
          ASSERT_NEAR(found[j].direction[axis], expected.direction[axis], 3e-3) << j;
        }
      }
    }
  }
}

}  // namespace
}  // namespace nerf::kernels
