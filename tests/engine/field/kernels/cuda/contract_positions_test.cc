#include "engine/field/kernels/contract_positions.h"

#include "tests/testing/cuda_test.h"
#include "tests/testing/random_floats.h"

namespace nerf::kernels {
namespace {

class CudaContractPositionsTest : public CudaTest {};
NERF_INSTANTIATE_CUDA_PLACES(CudaContractPositionsTest);

TEST_P(CudaContractPositionsTest, PositionsOfTheRangeAreThoseOfTheHostAndNoOthersMove) {
  const Vec3 origin = {-3, -2, -5}, scale = {8, 9, 10}, center = {0.5f, 0, -0.25f};
  const std::vector<Vec3> before = RandomPoints(900, 0, 1, 4);
  const Frustum frustum{{0.5f, 0, -0.25f}, {1, 0, 0}, {0, 0, 1}, {0, 1, 0}, 0.5f, 8};
  for (const Contraction kind : {Contraction::kLinf, Contraction::kL2, Contraction::kPerspective}) {
    const EncodedSpace space{kind, center, {0.75f, 0.75f, 0.75f}, frustum};
    for (const uint32_t n : {0u, 1u, 256u, 257u, 600u}) {
      DeviceArray<Vec3> positions(before);
      const DeviceArray<uint32_t> counts({100u, n});
      cuda::ContractPositions({.range = {900, counts.data(), 1},
                               .space = space,
                               .origin = origin,
                               .scale = scale,
                               .positions = positions.data()},
                              stream_);
      const std::vector<Vec3> found = positions.Download(stream_);
      int n_far = 0;
      for (uint32_t i = 0; i < 900; ++i) {
        if (i < 100 || i >= 100 + n) {
          ASSERT_EQ(found[i], before[i]) << i;
          continue;
        }
        const Vec3 place = origin + before[i] * scale;
        n_far += ContractionNorm(kind, (place - center) * 0.75f) > 1;
        const Vec3 expected = space.ToUnit(place);
        for (int axis = 0; axis < 3; ++axis) {
          ASSERT_NEAR(found[i][axis], expected[axis], 1e-6) << i;
          // The frustum holds some of these places.
          if (kind == Contraction::kPerspective) continue;
          ASSERT_GE(found[i][axis], 0) << i;
          ASSERT_LE(found[i][axis], 1) << i;
        }
      }
      if (n == 600) {
        EXPECT_GT(n_far, 300);
      }
    }
  }
}

}  // namespace
}  // namespace nerf::kernels
