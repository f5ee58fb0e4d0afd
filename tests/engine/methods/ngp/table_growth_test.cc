#include "engine/methods/ngp/table_growth.h"

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
HashGridShape Shape(int n_features, int log2_entries) {
  return MakeHashGridShape(5, n_features, log2_entries, 4, 128);
}

TEST(GrownTableTest, EncodesEveryPointAsTheSmallerOne) {
  for (const int n_features : {2, 4}) {
    const HashGridShape from = Shape(n_features, kLog2Entries);
    const std::vector<float> values = RandomFloats(from.level_size() * from.n_levels, -1, 1, 3);
    Buffer<float> table(values.size());
    std::copy(values.begin(), values.end(), table.begin());
    std::vector<Vec3> points = RandomPoints(200, 0, 1, 4);
    points.insert(points.end(), {{0, 0, 0}, {1, 1, 1}, {1, 0, 0.5f}});
    const std::vector<double> held(values.begin(), values.end());
    const std::vector<double> expected = reference::HashEncodeForward(from, held, points);
    for (const int log2_entries : {kLog2Entries, 13, 14, 18}) {
      const HashGridShape to = Shape(n_features, log2_entries);
      const Buffer<float> grown = GrownTable(from, to, table);
      const std::vector<double> wide(grown.begin(), grown.end());
      EXPECT_EQ(reference::HashEncodeForward(to, wide, points), expected) << log2_entries;
    }
    ASSERT_TRUE(from.IsDense(1));
    ASSERT_FALSE(from.IsDense(2));
    ASSERT_TRUE(Shape(n_features, 14).IsDense(2));
    ASSERT_FALSE(Shape(n_features, 18).IsDense(4));
  }
}

TEST(GrownTableTest, AStartKeepsItsLayersAndMayNotBeLarger) {
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
  EXPECT_THAT(small.Initialize(grown),
              StatusIs(absl::StatusCode::kInvalidArgument, "field.hash_table"));
  EXPECT_THAT(large.Load(model), StatusIs(absl::StatusCode::kInvalidArgument, "field.hash_table"))
      << "a resumed training has the table that it had";
}

// Shapes that a reader of tensors accepts, and no hash table has.
TEST(GrownTableTest, OddShapesAreRefused) {
  NgpParameters parameters(TinyConfig(), NgpHashGridShape({.log2_hashmap_size = 12}));
  parameters.InitializeRandomly();
  TensorFile model;
  parameters.SaveModel(&model);
  for (const std::vector<uint32_t>& odd :
       {std::vector<uint32_t>{16, 0, 2}, {16, 3, 2}, {16, 1024, 2}, {16, 1024}, {}, {1024}}) {
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
