#include "engine/methods/ngp/table_resize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/parameters.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/reference/hash_encoding.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tiny_training.h"

namespace nerf {
namespace {

using kernels::HashGridShape;
using kernels::MakeHashGridShape;

constexpr int kLog2Entries = 12;  // 16^3

// Levels of 4, 9, 22, 53 and 128 cells: some are dense in both tables, some in the larger one
// alone.
HashGridShape TableResizeShape(int n_features, int log2_entries) {
  return MakeHashGridShape(5, n_features, log2_entries, 4, 128);
}

TEST(ResizedTableTest, EncodesEveryPointAsTheSmallerOne) {
  for (const int n_features : {2, 4}) {
    const HashGridShape from = TableResizeShape(n_features, kLog2Entries);
    const std::vector<float> values = RandomFloats(from.level_size() * from.n_levels, -1, 1, 3);
    Buffer<float> table(values.size());
    std::copy(values.begin(), values.end(), table.begin());
    std::vector<Vec3> points = RandomPoints(200, 0, 1, 4);
    points.insert(points.end(), {{0, 0, 0}, {1, 1, 1}, {1, 0, 0.5f}});
    const std::vector<double> held(values.begin(), values.end());
    const std::vector<double> expected = reference::HashEncodeForward(from, held, points);
    for (const int log2_entries : {kLog2Entries, 13, 14, 18}) {
      const HashGridShape to = TableResizeShape(n_features, log2_entries);
      const Buffer<float> grown = ResizedTable(from, to, table);
      const std::vector<double> wide(grown.begin(), grown.end());
      EXPECT_EQ(reference::HashEncodeForward(to, wide, points), expected) << log2_entries;
    }
    ASSERT_TRUE(from.IsDense(1));
    ASSERT_FALSE(from.IsDense(2));
    ASSERT_TRUE(TableResizeShape(n_features, 14).IsDense(2));
    ASSERT_FALSE(TableResizeShape(n_features, 18).IsDense(4));
  }
}

Buffer<float> TableOf(const std::vector<float>& values) {
  Buffer<float> table(values.size());
  std::copy(values.begin(), values.end(), table.begin());
  return table;
}

TEST(ResizedTableTest, AGrownTableShrinksToWhatItWas) {
  for (const int n_features : {2, 4}) {
    const HashGridShape small = TableResizeShape(n_features, kLog2Entries);
    const std::vector<float> values = RandomFloats(small.level_size() * small.n_levels, -1, 1, 3);
    const std::vector<Vec3> points = RandomPoints(200, 0, 1, 4);
    const std::vector<double> expected = reference::HashEncodeForward(
        small, std::vector<double>(values.begin(), values.end()), points);
    for (const int log2_entries : {13, 14, 18}) {
      const HashGridShape large = TableResizeShape(n_features, log2_entries);
      const Buffer<float> shrunk =
          ResizedTable(large, small, ResizedTable(small, large, TableOf(values)));
      const std::vector<double> encoded = reference::HashEncodeForward(
          small, std::vector<double>(shrunk.begin(), shrunk.end()), points);
      for (size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(encoded[i], expected[i], 1e-5) << log2_entries << " " << i;
    }
  }
}

// Against the definition: of each vertex or entry of the larger table, to its hash in the smaller.
TEST(ResizedTableTest, ASmallerTableHasMeansOfWhatFallsOnAnEntry) {
  const HashGridShape from = TableResizeShape(2, 14), to = TableResizeShape(2, kLog2Entries);
  const std::vector<float> values = RandomFloats(from.level_size() * from.n_levels, -1, 1, 5);
  const Buffer<float> shrunk = ResizedTable(from, to, TableOf(values));
  for (const int level : {2, 3}) {
    const auto corners = static_cast<uint32_t>(from.resolution[level]) + 1;
    ASSERT_EQ(from.IsDense(level), level == 2);
    std::vector<double> sums(to.level_size()), weights(to.entries());
    const auto add = [&](size_t held, size_t entry) {
      const float* const features = &values[from.level_size() * level + 2 * held];
      const double weight = features[0] * features[0] + features[1] * features[1];
      weights[entry] += weight;
      for (int f = 0; f < 2; ++f) sums[2 * entry + f] += weight * features[f];
    };
    if (from.IsDense(level)) {
      for (uint32_t z = 0; z < corners; ++z)
        for (uint32_t y = 0; y < corners; ++y)
          for (uint32_t x = 0; x < corners; ++x)
            add(x + corners * (y + corners * z),
                (x ^ (y * 2654435761u) ^ (z * 805459861u)) % to.entries());
    } else {
      for (size_t held = 0; held < from.entries(); ++held) add(held, held % to.entries());
    }
    size_t n_filled = 0;
    for (size_t i = 0; i < sums.size(); ++i) {
      n_filled += weights[i / 2] > 0 ? 1 : 0;
      const double expected = weights[i / 2] > 0 ? sums[i] / weights[i / 2] : 0;
      ASSERT_NEAR(shrunk[to.level_size() * level + i], expected, 1e-5) << level << " " << i;
    }
    EXPECT_GT(n_filled, sums.size() / 2);
  }
}

TEST(ResizedTableTest, EntriesThatWereNotTrainedDoNotDiluteTheOther) {
  const HashGridShape from = TableResizeShape(2, 14), to = TableResizeShape(2, 13);
  constexpr int kLevel = 4;
  ASSERT_FALSE(from.IsDense(kLevel));
  std::vector<float> values(from.level_size() * from.n_levels, 1e-4f);
  values[from.level_size() * kLevel + 2 * 77] = 0.5f;
  const Buffer<float> shrunk = ResizedTable(from, to, TableOf(values));
  EXPECT_NEAR(shrunk[to.level_size() * kLevel + 2 * 77], 0.5f, 1e-4f);
  EXPECT_NEAR(shrunk[to.level_size() * kLevel + 2 * 78], 1e-4f, 1e-8f);
}

TEST(ResizedTableTest, ATableOfZerosStaysOne) {
  const HashGridShape from = TableResizeShape(4, 14);
  const std::vector<float> zeros(from.level_size() * from.n_levels);
  for (const float value : ResizedTable(from, TableResizeShape(4, 12), TableOf(zeros)))
    EXPECT_EQ(value, 0);
}

TEST(ResizedTableTest, AStartKeepsItsLayers) {
  TrainConfig config = TinyConfig();
  const auto shape = [](int log2_entries) {
    return NgpHashGridShape({.log2_hashmap_size = log2_entries});
  };
  NgpParameters small(config, shape(12));
  small.InitializeRandomly();
  TensorFile model;
  small.SaveModel(&model);
  Ngp(config).log2_hashmap_size = 13;
  NgpParameters large(config, shape(13));
  ASSERT_THAT(large.Initialize(model), IsOk());
  TensorFile grown;
  large.SaveModel(&grown);
  EXPECT_EQ(grown.tensors.at("field.color_mlp.0").bytes,
            model.tensors.at("field.color_mlp.0").bytes);
  EXPECT_EQ(grown.tensors.at(kHashTableName).shape[1], 1u << 13);
  ASSERT_THAT(small.Initialize(grown), IsOk());
  TensorFile shrunk;
  small.SaveModel(&shrunk);
  EXPECT_EQ(shrunk.tensors.at("field.color_mlp.0").bytes,
            model.tensors.at("field.color_mlp.0").bytes);
  EXPECT_EQ(shrunk.tensors.at(kHashTableName).shape[1], 1u << 12);
  EXPECT_THAT(large.Load(model), StatusIs(absl::StatusCode::kInvalidArgument, "field.hash_table"))
      << "a resumed training has the table that it had";
}

// Shapes that a reader of tensors accepts, and no hash table has.
TEST(ResizedTableTest, OddShapesAreRefused) {
  NgpParameters parameters(TinyConfig(), NgpHashGridShape({.log2_hashmap_size = 12}));
  parameters.InitializeRandomly();
  TensorFile model;
  parameters.SaveModel(&model);
  for (const std::vector<uint32_t>& odd : {std::vector<uint32_t>{16, 0, 2},
                                           {16, 3, 2},
                                           {8, 1024, 2},
                                           {16, 8192, 4},
                                           {16, 1024},
                                           {},
                                           {1024}}) {
    size_t n = 1;
    for (const uint32_t side : odd) n *= side;
    const std::vector<float> values(n);
    model.tensors.at(kHashTableName) = TensorFromFloats(values.data(), odd, DType::kF16);
    EXPECT_THAT(parameters.Initialize(model),
                StatusIs(absl::StatusCode::kInvalidArgument, "field.hash_table"));
  }
}

}  // namespace
}  // namespace nerf
