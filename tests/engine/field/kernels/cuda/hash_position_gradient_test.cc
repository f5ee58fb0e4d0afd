#include "engine/field/kernels/hash_position_gradient.h"

#include "tests/testing/cuda_test.h"
#include "tests/testing/random_floats.h"

namespace nerf::kernels {
namespace {

class CudaHashPositionGradientTest : public CudaTest {};
NERF_INSTANTIATE_CUDA_PLACES(CudaHashPositionGradientTest);

// Of kept samples that are stored in reverse order, for some of the levels.
TEST_P(CudaHashPositionGradientTest, IsThatOfTheHost) {
  constexpr uint32_t kSlots = 700;
  const std::vector<Vec3> positions = RandomPoints(kSlots, 0, 1, 1);
  std::vector<uint32_t> rows;
  for (uint32_t k = 0; k < kSlots; ++k) rows.push_back(kSlots - 1 - k);
  for (const int n_features : {2, 4}) {
    HashGridShape shape = MakeHashGridShape(3, n_features, 10, 4, 30);
    const std::vector<float> table = RandomFloats(shape.level_size() * 3, -1, 1, 3);
    shape.n_levels = 2;
    const int width = shape.width();
    const uint32_t stride = kSlots + 5;
    const std::vector<float> grads = RandomFloats(size_t(3 * n_features) * stride, -1, 1, 4);
    for (const uint32_t n : {0u, 1u, 255u, 600u}) {
      const DeviceArray<float> device_table(table), device_grads(grads);
      const DeviceArray<Vec3> device_positions(positions);
      const DeviceArray<uint32_t> device_rows(rows), counts({n});
      DeviceArray<Vec3> gradients(kSlots);
      cuda::HashPositionGradient({.shape = shape,
                                  .range = {kSlots, counts.data()},
                                  .table = device_table.data(),
                                  .rows = device_rows.data(),
                                  .positions = device_positions.data(),
                                  .grad_features = device_grads.data(),
                                  .stride = stride,
                                  .grad_positions = gradients.data()},
                                 stream_);
      const std::vector<Vec3> found = gradients.Download(stream_);
      for (uint32_t k = 0; k < kSlots; ++k) {
        Vec3 expected;
        std::vector<float> features(width);
        for (int f = 0; f < width; ++f)
          features[f] = grads[(size_t{stride} * (f / 2) + k) * 2 + f % 2];
        if (k < n) {
          cpu::HashPositionGradient(
              HashPositionGradientParams<float>{.shape = &shape,
                                                .table = table.data(),
                                                .n = 1,
                                                .positions = &positions[rows[k]],
                                                .grad_features = features.data(),
                                                .stride = width,
                                                .grad_positions = &expected});
        }
        for (int axis = 0; axis < 3; ++axis) ASSERT_NEAR(found[k][axis], expected[axis], 1e-4) << k;
      }
    }
  }
}

}  // namespace
}  // namespace nerf::kernels
