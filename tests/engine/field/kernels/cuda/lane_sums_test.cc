#include "engine/field/kernels/lane_sums.h"

#include "tests/testing/cuda_test.h"
#include "tests/testing/random_floats.h"

namespace nerf {
namespace {

namespace cuda = kernels::cuda;

class CudaLaneSumsTest : public CudaTest {};
NERF_INSTANTIATE_CUDA_PLACES(CudaLaneSumsTest);

TEST_P(CudaLaneSumsTest, RangesKeepWhatLiesBetweenTheirOffsets) {
  const DeviceArray<uint32_t> offsets{0, 3, 3, 10, 11}, bounds{0, 0, 2, 4};
  DeviceArray<uint32_t> counts(3);
  cuda::CountInRanges(
      {.n = 3, .bounds = bounds.data(), .offsets = offsets.data(), .counts = counts.data()},
      stream_);
  EXPECT_EQ(counts.Download(stream_), (std::vector<uint32_t>{0, 3, 8}));
}

TEST_P(CudaLaneSumsTest, RowsAreAddedInOrder) {
  for (const int n_rows : {0, 1, 7}) {
    for (const int n : {1, 63, 64, 1000}) {
      const std::vector<float> rows = RandomFloats(static_cast<size_t>(n_rows) * n, -1, 1, 5);
      const DeviceArray<float> device_rows(rows);
      DeviceArray<float> sums(n);
      cuda::SumRows({.n_rows = n_rows, .n = n, .rows = device_rows.data(), .sums = sums.data()},
                    stream_);
      const std::vector<float> found = sums.Download(stream_);
      for (int i = 0; i < n; ++i) {
        float expected = 0;
        for (int row = 0; row < n_rows; ++row) expected += rows[static_cast<size_t>(row) * n + i];
        ASSERT_EQ(found[i], expected) << n_rows << ", " << i;
      }
    }
  }
}

}  // namespace
}  // namespace nerf
