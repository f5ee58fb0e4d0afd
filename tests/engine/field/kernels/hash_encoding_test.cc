#include "engine/field/kernels/hash_encoding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "engine/base/buffer.h"
#include "tests/testing/central_difference.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/reference/hash_encoding.h"
#include "tests/testing/simd_paths.h"

namespace nerf::kernels {
namespace {

// Around 16, the number of samples that are encoded together.
constexpr int kHashEncodingSizes[] = {0, 1, 15, 16, 17, 31, 33, 100};
constexpr float kHashEncodingUntouched = -77;
// The finest grid has 300 cells a side: a coordinate times 300 has an error of 2^-16, which changes
// a feature by that times the difference between corners, on three axes.
constexpr int kFinest = 300;
constexpr double kTolerance = 3 * 2 * 0x1p-16 + 1e-6;

// Five levels, the first two of them dense.
HashGridShape Shape(int n_features) { return MakeHashGridShape(5, n_features, 12, 4, kFinest); }

Buffer<float> RandomTable(const HashGridShape& shape) {
  const std::vector<float> values = RandomFloats(shape.level_size() * shape.n_levels, -1, 1, 7);
  Buffer<float> table(values.size());
  std::copy(values.begin(), values.end(), table.begin());
  return table;
}

// Points inside and outside of the cube, some on corners and faces of cells, and some successive
// points in one cell, as along a ray.
std::vector<Vec3> Positions(int n) {
  std::vector<Vec3> positions = RandomPoints(n, -0.2f, 1.2f, 8);
  const Vec3 special[] = {{0, 0, 0}, {1, 1, 1}, {0.25f, 0.5f, 0.75f}, {1, 0, 0.5f}, {-3, 9, 0.1f}};
  for (int i = 0; i < n; ++i) {
    if (i % 7 == 3) positions[i] = special[i / 7 % 5];
    if (i % 7 > 4) positions[i] = positions[i - 1] + Vec3{1e-4f, 0, -1e-4f};
  }
  return positions;
}

std::vector<double> Wide(const Buffer<float>& values) { return {values.begin(), values.end()}; }

class HashEncodingTest : public SimdPathTest {};

NERF_INSTANTIATE_SIMD_PATHS(HashEncodingTest);

TEST_P(HashEncodingTest, ForwardAgreesWithTheReferenceForAllSizes) {
  for (int n_features : {2, 4}) {
    const HashGridShape shape = Shape(n_features);
    ASSERT_TRUE(shape.IsDense(0));
    ASSERT_FALSE(shape.IsDense(4));
    const Buffer<float> table = RandomTable(shape);
    const int width = shape.width(), stride = width + 3;
    for (int n : kHashEncodingSizes) {
      const std::vector<Vec3> positions = Positions(n);
      std::vector<float> features(n * stride, kHashEncodingUntouched);
      cpu::HashEncodeForward(HashEncodeForwardParams<float>{.shape = &shape,
                                                            .table = table.data(),
                                                            .n = n,
                                                            .positions = positions.data(),
                                                            .features = features.data(),
                                                            .stride = stride});
      const std::vector<double> expected =
          reference::HashEncodeForward(shape, Wide(table), positions);
      for (int i = 0; i < n; ++i) {
        for (int j = 0; j < width; ++j) {
          EXPECT_NEAR(features[i * stride + j], expected[i * width + j], kTolerance)
              << n << ", " << i << ", " << j;
        }
        for (int j = width; j < stride; ++j)
          EXPECT_EQ(features[i * stride + j], kHashEncodingUntouched);
      }
    }
  }
}

TEST_P(HashEncodingTest, HalvesGiveTheSameBytesAsTheirValuesInFp32) {
  for (int n_features : {2, 4}) {
    const HashGridShape shape = Shape(n_features);
    Buffer<float> table = RandomTable(shape);
    for (size_t i = 0; i < table.size(); i += 5) table[i] *= 1e-6f;  // subnormal as halves
    Buffer<Half> halves(table.size());
    std::transform(table.begin(), table.end(), halves.begin(), HalfFromFloat);
    std::transform(halves.begin(), halves.end(), table.begin(), FloatFromHalf);
    for (int n : kHashEncodingSizes) {
      const std::vector<Vec3> positions = Positions(n);
      const int width = shape.width();
      std::vector<float> expected(n * width), features(n * width);
      cpu::HashEncodeForward(HashEncodeForwardParams<float>{.shape = &shape,
                                                            .table = table.data(),
                                                            .n = n,
                                                            .positions = positions.data(),
                                                            .features = expected.data(),
                                                            .stride = width});
      cpu::HashEncodeForward(HashEncodeForwardParams<Half>{.shape = &shape,
                                                           .table = halves.data(),
                                                           .n = n,
                                                           .positions = positions.data(),
                                                           .features = features.data(),
                                                           .stride = width});
      ASSERT_EQ(features, expected) << n;
    }
  }
}

TEST_P(HashEncodingTest, InactiveLevelsGiveZerosAndTheOthersTheSameBytes) {
  for (int n_features : {2, 4}) {
    const HashGridShape shape = Shape(n_features);
    const Buffer<float> table = RandomTable(shape);
    const int width = shape.width(), n = 33;
    const std::vector<Vec3> positions = Positions(n);
    const auto encode = [&](int n_active) {
      std::vector<float> features(n * width, kHashEncodingUntouched);
      cpu::HashEncodeForward(HashEncodeForwardParams<float>{.shape = &shape,
                                                            .table = table.data(),
                                                            .n = n,
                                                            .positions = positions.data(),
                                                            .features = features.data(),
                                                            .stride = width,
                                                            .n_active = n_active});
      return features;
    };
    const std::vector<float> all = encode(shape.n_levels);
    for (int n_active : {1, 2, shape.n_levels - 1, kMaxHashLevels}) {
      const std::vector<float> some = encode(n_active);
      for (int i = 0; i < n * width; ++i)
        ASSERT_EQ(some[i], i % width < n_active * n_features ? all[i] : 0) << n_active << ", " << i;
    }
  }
}

// Rows [n][width] as the tiles that HashEncodeBackward reads. Floats between the tiles, and those
// of missing samples of the last tile, are not gradients.
std::vector<float> Tiles(const HashGridShape& shape, int n, const std::vector<float>& rows,
                         int tile_stride) {
  const int width = shape.width();
  std::vector<float> tiles(static_cast<size_t>((n + 15) / 16 * tile_stride), 1e6f);
  for (int i = 0; i < n; ++i) {
    for (int c = 0; c < width; ++c) {
      const int level = c / shape.n_features, f = c % shape.n_features;
      tiles[i / 16 * tile_stride + (16 * level + i % 16) * shape.n_features + f] =
          rows[i * width + c];
    }
  }
  return tiles;
}

// Compares one level's gradients of n samples to the reference, and checks that they are on touched
// lines.
void CheckBackwardLevel(const HashGridShape& shape, int level, std::span<const Vec3> positions,
                        const std::vector<float>& tiles, int tile_stride,
                        const std::vector<double>& expected) {
  const size_t level_size = shape.level_size();
  const int n = static_cast<int>(positions.size());
  Buffer<float> grad_table(level_size);
  Buffer<uint8_t> touched(level_size / kLineFloats);
  cpu::HashEncodeBackward({.shape = &shape,
                           .level = level,
                           .n = n,
                           .positions = positions.data(),
                           .grad_features = tiles.data() + 16 * shape.n_features * level,
                           .tile_stride = tile_stride,
                           .grad_table = grad_table.data(),
                           .touched = touched.data()});
  for (size_t i = 0; i < level_size; ++i) {
    // Up to n samples add to an entry, each with the forward pass's error.
    ASSERT_NEAR(grad_table[i], expected[level_size * level + i], n * kTolerance)
        << n << ", " << level << ", " << i;
    ASSERT_TRUE(grad_table[i] == 0 || touched[i / kLineFloats] == 1) << i;
  }
}

TEST_P(HashEncodingTest, BackwardAgreesWithTheReferenceAndFlagsEveryTouchedLine) {
  for (int n_features : {2, 4}) {
    const HashGridShape shape = Shape(n_features);
    const int width = shape.width(), tile_stride = 16 * width + 3;
    for (int n : kHashEncodingSizes) {
      const std::vector<Vec3> positions = Positions(n);
      const std::vector<float> rows = RandomFloats(n * width, -1, 1, 9);
      const std::vector<float> tiles = Tiles(shape, n, rows, tile_stride);
      const std::vector<double> expected = reference::HashEncodeBackward(
          shape, positions, std::vector<double>(rows.begin(), rows.end()));
      for (int level = 0; level < shape.n_levels; ++level) {
        CheckBackwardLevel(shape, level, positions, tiles, tile_stride, expected);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(HashEncodingTest, BackwardAddsToWhatIsThere) {
  const HashGridShape shape = MakeHashGridShape(1, 2, 12, 4, 4);
  const Vec3 corner{0.25f, 0.5f, 0.75f};  // cell corner (1, 2, 3)
  const float grad[] = {2, 3};
  Buffer<float> grad_table(size_t{2} * shape.entries());
  Buffer<uint8_t> touched(shape.entries() / 8);
  const uint32_t entry = 1 + 5 * (2 + 5 * 3);
  grad_table[2 * entry] = 10;
  for (int pass = 0; pass < 2; ++pass) {
    cpu::HashEncodeBackward({.shape = &shape,
                             .level = 0,
                             .n = 1,
                             .positions = &corner,
                             .grad_features = grad,
                             .tile_stride = 32,
                             .grad_table = grad_table.data(),
                             .touched = touched.data()});
  }
  EXPECT_EQ(grad_table[2 * entry], 14);
  EXPECT_EQ(grad_table[2 * entry + 1], 6);
  EXPECT_EQ(touched[entry / 8], 1);
}

TEST_P(HashEncodingTest, HandWorkedMiddleOfACellIsTheMeanOfItsCorners) {
  const HashGridShape shape = MakeHashGridShape(1, 2, 12, 2, 2);
  Buffer<float> table(size_t{2} * shape.entries());
  // Feature 0 is x of the corner, feature 1 the number of the corner.
  for (uint32_t entry = 0; entry < 27; ++entry) {
    table[2 * entry] = static_cast<float>(entry % 3);
    table[2 * entry + 1] = static_cast<float>(entry);
  }
  const Vec3 position{0.75f, 0.25f, 0.25f};  // middle of cell (1, 0, 0)
  float features[2];
  cpu::HashEncodeForward(HashEncodeForwardParams<float>{.shape = &shape,
                                                        .table = table.data(),
                                                        .n = 1,
                                                        .positions = &position,
                                                        .features = features,
                                                        .stride = 2});
  EXPECT_FLOAT_EQ(features[0], 1.5f);
  EXPECT_FLOAT_EQ(features[1], (1 + 2 + 4 + 5 + 10 + 11 + 13 + 14) / 8.0f);
}

TEST_P(HashEncodingTest, NanReadsInsideTheTable) {
  // Positions come from rays of untrusted scenes. The sanitizer build detects a read out of bounds.
  const HashGridShape shape = Shape(2);
  const Buffer<float> table = RandomTable(shape);
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinity = std::numeric_limits<float>::infinity();
  const Vec3 positions[] = {{nan, 0.5f, 0.5f}, {0.5f, nan, nan}, {infinity, -infinity, 0.5f}};
  std::vector<float> features(3 * 2 * shape.n_levels);
  cpu::HashEncodeForward(HashEncodeForwardParams<float>{.shape = &shape,
                                                        .table = table.data(),
                                                        .n = 3,
                                                        .positions = positions,
                                                        .features = features.data(),
                                                        .stride = 2 * shape.n_levels});
  for (int j = 0; j < 2 * shape.n_levels; ++j)
    EXPECT_TRUE(std::isfinite(features[4 * shape.n_levels + j]));
}

TEST(HashGridShapeTest, ResolutionsGoFromBaseToFinestInGeometricProgression) {
  const HashGridShape shape = MakeHashGridShape(16, 2, 18, 16, 2048);
  EXPECT_EQ(shape.resolution[0], 16);
  EXPECT_EQ(shape.resolution[15], 2048);
  for (int level = 1; level < 16; ++level) {
    const double ratio = static_cast<double>(shape.resolution[level]) / shape.resolution[level - 1];
    EXPECT_NEAR(ratio, std::pow(128, 1.0 / 15), 0.07) << level;  // floors move it
  }
}

TEST(HashGridShapeTest, HashedEntriesStayInTheTable) {
  const HashGridShape shape = Shape(2);
  for (int i = 0; i < 1000; ++i) {
    const auto w = RandomWords(1, RandomUse::kTest, 0, i);
    EXPECT_LT(HashGridEntry(w[0], w[1], w[2], 301, false, shape.entries() - 1), shape.entries());
  }
}

TEST(HashEncodingReferenceTest, GradientsAgreeWithCentralDifferences) {
  const HashGridShape shape = MakeHashGridShape(3, 2, 12, 4, 60);
  const std::vector<float> table_f = RandomFloats(size_t{6} * shape.entries(), -1, 1, 1);
  std::vector<double> table(table_f.begin(), table_f.end());
  const std::vector<Vec3> positions = RandomPoints(4, 0, 1, 2);
  const std::vector<float> grad_f = RandomFloats(4 * 6, -1, 1, 3);
  const std::vector<double> grad_features(grad_f.begin(), grad_f.end());
  const std::vector<double> gradient =
      reference::HashEncodeBackward(shape, positions, grad_features);
  const auto loss = [&] {
    const std::vector<double> features = reference::HashEncodeForward(shape, table, positions);
    double sum = 0;
    for (size_t i = 0; i < features.size(); ++i) sum += features[i] * grad_features[i];
    return sum;
  };
  constexpr double kStep = 1e-3;  // the loss is linear in the table: only rounding is left
  int n_checked = 0;
  for (size_t i = 0; i < table.size(); ++i) {
    if (gradient[i] == 0 && i % 1000 != 0) continue;
    EXPECT_NEAR(gradient[i], CentralDifference(&table[i], kStep, loss), 1e-10) << i;
    ++n_checked;
  }
  EXPECT_GT(n_checked, 100);
}

}  // namespace
}  // namespace nerf::kernels
