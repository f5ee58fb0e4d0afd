#include "engine/scene/read/placement_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

namespace nerf {
namespace {

SceneGeometry SomeGeometry() {
  SceneGeometry geometry;
  geometry.frame.own_to_training.m[0][0] = 0;
  geometry.frame.own_to_training.m[0][1] = -0.25f;
  geometry.frame.own_to_training.m[1][0] = 0.25f;
  geometry.frame.own_to_training.m[1][1] = 0;
  geometry.frame.own_to_training.m[2][2] = 0.25f;
  geometry.frame.own_to_training.m[1][3] = 7.125f;
  geometry.frame.scale = 0.25f;
  geometry.box = {{-1, -2, -1}, {1, 0, 1}};
  geometry.n_levels = 3;
  return geometry;
}

TEST(PlacementFileTest, PlacementIsReadAsItWasWritten) {
  Problems problems;
  const auto placement = ParsePlacement(PlacementText(SomeGeometry()), &problems);
  ASSERT_TRUE(placement.has_value()) << SummaryOf(problems);
  EXPECT_EQ(ToSceneFrame(placement->own_to_training), SomeGeometry().frame);
  EXPECT_EQ(placement->box, SomeGeometry().box);
  EXPECT_EQ(placement->n_levels, 3);
}

TEST(PlacementFileTest, OriginIsReadAsItWasWritten) {
  SceneGeometry geometry = SomeGeometry();
  EXPECT_FALSE(nlohmann::json::parse(PlacementText(geometry)).contains("origin"));
  geometry.frame.origin = {441550, 5121950.1, -2345};
  Problems problems;
  const auto placement = ParsePlacement(PlacementText(geometry), &problems);
  ASSERT_TRUE(placement.has_value()) << SummaryOf(problems);
  EXPECT_EQ(placement->origin, geometry.frame.origin);
}

TEST(PlacementFileTest, WrongFieldsAreNamed) {
  const auto good = nlohmann::json::parse(PlacementText(SomeGeometry()));
  const std::vector<std::pair<const char*, nlohmann::json>> cases = {
      {"own_to_training", nullptr},
      {"own_to_training", {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}},
      {"own_to_training", {{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}}},
      {"own_to_training", {{-1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}}},
      {"own_to_training", {{1, 0, 0, 1e300}, {0, 1, 0, 0}, {0, 0, 1, 0}}},
      {"own_to_training", {{1, 0, 0, "x"}, {0, 1, 0, 0}, {0, 0, 1, 0}}},
      {"box", 3},
      {"box", {{0, 0, 0}, {1, 1, -1}}},
      {"boxes", 0},
      {"boxes", 9},
      {"boxes", 1.5},
      {"boxes", -1},
      {"origin", 3},
      {"origin", {1, 2}},
      {"origin", {1, 2, 1e300}},
      {"origin", {1, nullptr, 3}},
  };
  for (const auto& [key, value] : cases) {
    nlohmann::json json = good;
    json[key] = value;
    Problems problems;
    EXPECT_FALSE(ParsePlacement(json.dump(), &problems).has_value()) << key << " " << value;
    ASSERT_EQ(problems.size(), 1u) << value;
    EXPECT_EQ(problems[0].file, "placement.json");
    EXPECT_EQ(problems[0].field, key);
  }
  Problems problems;
  EXPECT_FALSE(ParsePlacement("[1", &problems).has_value());
  EXPECT_EQ(problems.size(), 1u);
}

}  // namespace
}  // namespace nerf
