#include "engine/field/kernels/hash_encoding.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/testing/cuda_test.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/reference/hash_encoding.h"

namespace nerf::kernels {
namespace {

// Around a block of threads.
constexpr uint32_t kHashEncodingSizes[] = {0, 1, 255, 256, 257, 1000};
constexpr int kFinest = 300;
// A coordinate times 300 has an error of 2^-16, which changes a feature by that times the
// difference between corners, on three axes.
constexpr double kFloatTolerance = 3 * 2 * 0x1p-16 + 1e-6;
// The result is rounded to half precision; the table's values are halves on both sides.
constexpr double kHalfTolerance = kFloatTolerance + 0x1p-11;

// Six levels, the first of them dense.
HashGridShape Shape(int n_features) { return MakeHashGridShape(6, n_features, 12, 4, kFinest); }

// Points inside and outside of the cube, some on corners and faces of cells.
std::vector<Vec3> Positions(size_t n) {
  std::vector<Vec3> positions = RandomPoints(n, -0.2f, 1.2f, 8);
  const Vec3 special[] = {{0, 0, 0}, {1, 1, 1}, {0.25f, 0.5f, 0.75f}, {1, 0, 0.5f}, {-3, 9, 0.1f}};
  for (size_t i = 3; i < n; i += 7) positions[i] = special[i / 7 % 5];
  return positions;
}

class CudaHashEncodingTest : public CudaTest {
 protected:
  template <typename T>
  void ExpectForwardAgrees(int n_features, double tolerance) {
    const HashGridShape shape = Shape(n_features);
    ASSERT_TRUE(shape.IsDense(0));
    ASSERT_FALSE(shape.IsDense(5));
    const int width = shape.width();
    const std::vector<T> table =
        Narrow<T>(RandomFloats(shape.level_size() * shape.n_levels, -1, 1, 7));
    const DeviceArray<T> device_table(table);
    for (uint32_t n : kHashEncodingSizes) {
      const uint32_t stride = n + 3;
      const std::vector<Vec3> positions = Positions(n);
      const DeviceArray<Vec3> device_positions(positions);
      DeviceArray<T> features(Narrow<T>(std::vector<float>(width * stride, -77)));
      cuda::HashEncodeForward(cuda::HashEncodeForwardParams<T>{.shape = shape,
                                                               .table = device_table.data(),
                                                               .range = {n},
                                                               .positions = device_positions.data(),
                                                               .features = features.data(),
                                                               .stride = stride},
                              stream_);
      const std::vector<double> expected =
          reference::HashEncodeForward(shape, Wide(table), positions);
      const std::vector<double> found = Wide(features.Download(stream_));
      for (int feature = 0; feature < width; ++feature) {
        for (uint32_t i = 0; i < stride; ++i) {
          const double value = found[(feature / 2 * stride + i) * 2 + feature % 2];
          if (i < n) {
            ASSERT_NEAR(value, expected[i * width + feature], tolerance)
                << n << ", " << i << ", " << feature;
          } else {
            ASSERT_EQ(value, -77) << "wrote past the end";
          }
        }
      }
    }
  }
};
NERF_INSTANTIATE_CUDA_PLACES(CudaHashEncodingTest);

TEST_P(CudaHashEncodingTest, ForwardAgreesWithTheReferenceForAllSizes) {
  for (int n_features : {2, 4}) ExpectForwardAgrees<float>(n_features, kFloatTolerance);
}

TEST_P(CudaHashEncodingTest, ForwardInHalfPrecisionAgreesWithTheReferenceForAllSizes) {
  for (int n_features : {2, 4}) ExpectForwardAgrees<Half>(n_features, kHalfTolerance);
}

// As sums of an fp32 table, rounded once.
TEST_P(CudaHashEncodingTest, ForwardInHalfPrecisionReadsAnFp32TableWhereThereIsOne) {
  constexpr uint32_t kSamples = 300;
  for (int n_features : {2, 4}) {
    const HashGridShape shape = Shape(n_features);
    const std::vector<float> values = RandomFloats(shape.level_size() * shape.n_levels, -1, 1, 7);
    const DeviceArray<float> table(values);
    const DeviceArray<Half> rounded(Narrow<Half>(values));
    const DeviceArray<Vec3> positions(Positions(kSamples));
    const auto features = [&]<typename T>(const T* of_table, const float* fp32_table) {
      DeviceArray<T> found(size_t{kSamples} * shape.width());
      cuda::HashEncodeForward(cuda::HashEncodeForwardParams<T>{.shape = shape,
                                                               .table = of_table,
                                                               .fp32_table = fp32_table,
                                                               .range = {kSamples},
                                                               .positions = positions.data(),
                                                               .features = found.data(),
                                                               .stride = kSamples},
                              stream_);
      return Wide(found.Download(stream_));
    };
    const auto of_masters = features(rounded.data(), table.data());
    const auto of_halves = features(rounded.data(), nullptr);
    std::vector<double> expected = features(table.data(), nullptr);
    for (double& value : expected) value = FloatFromHalf(HalfFromFloat(static_cast<float>(value)));
    EXPECT_EQ(of_masters, expected);
    EXPECT_NE(of_halves, expected);
  }
}

TEST_P(CudaHashEncodingTest, ForwardProcessesTheRangeCountedOnTheDevice) {
  const HashGridShape shape = MakeHashGridShape(2, 2, 12, 4, 9);
  const DeviceArray<float> table(std::vector<float>(4 * shape.entries(), 1.0f));
  const DeviceArray<Vec3> positions(Positions(300));
  const DeviceArray<uint32_t> counts(std::vector<uint32_t>{40, 20, 1000});
  for (int part : {0, 1, 2}) {
    DeviceArray<float> features(size_t{4} * 300);
    cuda::HashEncodeForward(
        cuda::HashEncodeForwardParams<float>{.shape = shape,
                                             .table = table.data(),
                                             .range = {300, counts.data(), part},
                                             .positions = positions.data(),
                                             .features = features.data(),
                                             .stride = 300},
        stream_);
    const std::vector<float> found = features.Download(stream_);
    const int begin[] = {0, 40, 60}, end[] = {40, 60, 300};  // the last one cut off at capacity
    for (int i = 0; i < 600; ++i) {
      const bool inside = i % 300 >= begin[part] && i % 300 < end[part];
      ASSERT_NEAR(found[2 * i], inside ? 1 : 0, 1e-6) << part << ", " << i;
    }
  }
}

TEST_P(CudaHashEncodingTest, BackwardAgreesWithTheReferenceInFloatsAndInFixedPoint) {
  for (int n_features : {2, 4}) {
    const HashGridShape shape = Shape(n_features);
    const int width = shape.width();
    const size_t table_size = shape.level_size() * shape.n_levels;
    for (uint32_t n : kHashEncodingSizes) {
      const uint32_t stride = n + 3;
      // Groups of five lie close together, as samples of a ray do.
      std::vector<Vec3> positions = Positions(n + 5);
      for (uint32_t i = 0; i < n + 5; ++i)
        positions[i] =
            positions[i - i % 5] + Vec3{1e-3f, 2e-3f, -1e-3f} * static_cast<float>(i % 5);
      std::vector<uint32_t> rows(n);
      std::vector<Vec3> gathered(n);
      for (uint32_t i = 0; i < n; ++i) {
        rows[i] = n + 4 - i;
        gathered[i] = positions[rows[i]];
      }
      std::vector<float> grads = RandomFloats(size_t(width) * stride, -1, 1, 9);
      for (uint32_t i = 3; i < n; i += 7)  // samples without gradients
        for (int plane = 0; plane < width / 2; ++plane)
          grads[2 * (plane * stride + i)] = grads[2 * (plane * stride + i) + 1] = 0;
      std::vector<double> packed(size_t(width) * n);
      for (uint32_t i = 0; i < n; ++i)
        for (int feature = 0; feature < width; ++feature)
          packed[i * width + feature] = grads[(feature / 2 * stride + i) * 2 + feature % 2];
      const std::vector<double> expected = reference::HashEncodeBackward(shape, gathered, packed);

      const DeviceArray<Vec3> device_positions(positions);
      const DeviceArray<uint32_t> device_rows(rows);
      const DeviceArray<float> device_grads(grads);
      DeviceArray<float> table(table_size);
      DeviceArray<int64_t> fixed(table_size);
      cuda::HashEncodeBackwardParams params{.shape = shape,
                                            .range = {n},
                                            .positions = device_positions.data(),
                                            .rows = device_rows.data(),
                                            .grad_features = device_grads.data(),
                                            .stride = stride,
                                            .grad_table = table.data()};
      cuda::HashEncodeBackward(params, stream_);
      params.grad_table = nullptr;
      params.fixed_grad_table = fixed.data();
      cuda::HashEncodeBackward(params, stream_);
      const std::vector<float> found = table.Download(stream_);
      const std::vector<int64_t> found_fixed = fixed.Download(stream_);
      for (size_t i = 0; i < table_size; ++i) {
        // Up to n samples add to an entry, each with the forward pass's error.
        ASSERT_NEAR(found[i], expected[i], n * kFloatTolerance) << n << ", " << i;
        ASSERT_NEAR(found_fixed[i] / static_cast<double>(cuda::kFixedPointOne), expected[i],
                    n * kFloatTolerance)
            << n << ", " << i;
      }
    }
  }
}

TEST_P(CudaHashEncodingTest, FixedPointSumsDoNotDependOnTheOrderOfTheSamples) {
  const HashGridShape shape = MakeHashGridShape(1, 2, 12, 2, 2);
  constexpr uint32_t kSamples = 500;
  std::vector<Vec3> positions = RandomPoints(kSamples, 0, 1, 1);
  std::vector<float> grads = RandomFloats(2 * kSamples, -1e3f, 1e3f, 2);
  const auto run = [&] {
    const DeviceArray<Vec3> device_positions(positions);
    const DeviceArray<float> device_grads(grads);
    DeviceArray<int64_t> fixed(size_t{2} * shape.entries());
    cuda::HashEncodeBackward({.shape = shape,
                              .range = {kSamples},
                              .positions = device_positions.data(),
                              .grad_features = device_grads.data(),
                              .stride = kSamples,
                              .fixed_grad_table = fixed.data()},
                             stream_);
    return fixed.Download(stream_);
  };
  const std::vector<int64_t> forwards = run();
  std::reverse(positions.begin(), positions.end());
  for (uint32_t i = 0; i < kSamples / 2; ++i)
    for (int f = 0; f < 2; ++f) std::swap(grads[2 * i + f], grads[2 * (kSamples - 1 - i) + f]);
  EXPECT_EQ(run(), forwards);
}

TEST_P(CudaHashEncodingTest, NanReadsInsideTheTable) {
  // Positions come from rays of untrusted scenes. The sanitizer build detects a read out of bounds.
  const HashGridShape shape = Shape(4);
  const DeviceArray<float> table(RandomFloats(shape.level_size() * shape.n_levels, -1, 1, 7));
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinity = std::numeric_limits<float>::infinity();
  const DeviceArray<Vec3> positions(
      std::vector<Vec3>{{nan, 0.5f, 0.5f}, {0.5f, nan, nan}, {infinity, -infinity, 0.5f}});
  DeviceArray<float> features(size_t{3} * shape.width());
  cuda::HashEncodeForward(cuda::HashEncodeForwardParams<float>{.shape = shape,
                                                               .table = table.data(),
                                                               .range = {3},
                                                               .positions = positions.data(),
                                                               .features = features.data(),
                                                               .stride = 3},
                          stream_);
  for (float feature : features.Download(stream_)) EXPECT_TRUE(std::isfinite(feature));
}

}  // namespace
}  // namespace nerf::kernels
