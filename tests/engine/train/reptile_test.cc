#include "engine/field/parameters/reptile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "tests/testing/random_floats.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using absl::StatusCode;

const std::vector<TensorShape> kField = {{"field.hash_table", "F16", {4, 8}},
                                         {"field.color_mlp.0", "F16", {3}}};

TensorFile RandomField(uint32_t seed) {
  TensorFile file;
  for (const TensorShape& tensor : kField) {
    size_t n = 1;
    for (const uint32_t side : tensor.shape) n *= side;
    const std::vector<float> values = RandomFloats(n, -1, 1, seed++);
    file.tensors[tensor.name] = TensorFromFloats(values.data(), tensor.shape, DType::kF32);
  }
  // Not of the field: optimizer state and grid.
  const float one = 1;
  file.tensors["adam.first.field.hash_table"] = TensorFromFloats(&one, {1}, DType::kF32);
  file.tensors["occupancy.bits"] = TensorFromFloats(&one, {1}, DType::kF32);
  return file;
}

TEST(ReptileTest, MovesThroughTheResultsAsInDoublePrecision) {
  TensorFile theta;
  std::map<std::string, std::vector<double>> expected;
  constexpr int kSteps = 5;
  for (int i = 0; i < kSteps; ++i) {
    const TensorFile trained = RandomField(100 * static_cast<uint32_t>(i));
    ASSERT_THAT(MoveTowards(trained, kField, ReptileRate(0.5, i, kSteps), &theta), IsOk());
    for (const TensorShape& tensor : kField) {
      const std::vector<float> values = ToFloats(trained.tensors.at(tensor.name));
      std::vector<double>& moved = expected[tensor.name];
      moved.resize(values.size());
      // The first result whole, then 0.5 (1 - i / 5) of the way.
      const double rates[] = {1, 0.4, 0.3, 0.2, 0.1};
      for (size_t j = 0; j < values.size(); ++j) moved[j] += rates[i] * (values[j] - moved[j]);
    }
  }
  EXPECT_EQ(theta.tensors.size(), kField.size());
  for (const TensorShape& tensor : kField) {
    EXPECT_EQ(theta.tensors.at(tensor.name).dtype, DType::kF32);
    const std::vector<float> values = ToFloats(theta.tensors.at(tensor.name));
    for (size_t j = 0; j < values.size(); ++j)
      EXPECT_NEAR(values[j], expected.at(tensor.name)[j], 1e-6) << tensor.name << " " << j;
  }
}

TEST(ReptileTest, EachRoundVisitsEverySceneOnceInAnOrderOfTheSeed) {
  constexpr int kScenes = 7;
  std::set<std::vector<int>> orders;
  for (const uint32_t seed : {1u, 2u}) {
    for (int round = 0; round < 3; ++round) {
      std::vector<int> order;
      for (int i = 0; i < kScenes; ++i)
        order.push_back(ReptileScene(seed, round * kScenes + i, kScenes));
      EXPECT_THAT(order, ::testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6));
      orders.insert(order);
    }
  }
  EXPECT_EQ(orders.size(), 6u) << "each round another order";
  EXPECT_EQ(ReptileScene(9, 12345, 1), 0);
}

TEST(ReptileTest, WhatHasNoMeanIsRefusedByNameAndNothingMoves) {
  TensorFile theta;
  ASSERT_THAT(MoveTowards(RandomField(1), kField, 1, &theta), IsOk());
  const std::string before = SerializeTensorFile(theta);
  const auto refuses = [&](const TensorFile& trained, const std::vector<TensorShape>& tensors,
                           const char* name) {
    EXPECT_THAT(MoveTowards(trained, tensors, 0.5, &theta),
                StatusIs(StatusCode::kInvalidArgument, name));
    EXPECT_EQ(SerializeTensorFile(theta), before);
  };
  const float one = 1;
  const Tensor single = TensorFromFloats(&one, {1}, DType::kF32);
  TensorFile trained = RandomField(2);
  trained.tensors["field.voxels"] = single;  // as many as bricks are stored
  refuses(trained, kField, "field.voxels");
  std::vector<TensorShape> tiles = kField;
  tiles.push_back({"tiles.cuts", "F32", {1}});
  trained = RandomField(2);
  trained.tensors["tiles.cuts"] = single;
  refuses(trained, tiles, "tiles.cuts");
  trained = RandomField(2);
  trained.tensors["field.color_mlp.0"] = single;
  refuses(trained, kField, "field.color_mlp.0");
  trained.tensors.erase("field.color_mlp.0");
  refuses(trained, kField, "field.color_mlp.0 is missing");
}

}  // namespace
}  // namespace nerf
