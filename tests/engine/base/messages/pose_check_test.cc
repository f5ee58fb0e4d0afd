#include "engine/base/messages/pose_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace nerf {
namespace {

std::vector<std::string> FieldsOf(const v1::PoseSpec& spec) {
  std::vector<std::string> fields;
  for (const Problem& problem : ProblemsOf(spec)) fields.push_back(problem.field);
  return fields;
}

TEST(PoseCheckTest, WhatIsNotSetIsRight) {
  EXPECT_TRUE(ProblemsOf(v1::PoseSpec()).empty());
  v1::PoseSpec spec;
  spec.set_min_posed(1);
  spec.set_film_frames(2000);
  spec.set_camera(v1::PoseSpec::EQUIRECTANGULAR);
  spec.set_mask_below_degrees(90);
  EXPECT_TRUE(ProblemsOf(spec).empty());
}

TEST(PoseCheckTest, EveryWrongFieldIsNamed) {
  v1::PoseSpec spec;
  spec.set_min_posed(1.5);
  spec.set_film_frames(2);
  spec.set_camera(static_cast<v1::PoseSpec::Camera>(77));
  spec.set_mask_below_degrees(std::nan(""));
  EXPECT_EQ(FieldsOf(spec),
            (std::vector<std::string>{"min_posed", "film_frames", "camera", "mask_below_degrees"}));
  spec = {};
  spec.set_min_posed(std::nan(""));
  EXPECT_EQ(FieldsOf(spec), std::vector<std::string>{"min_posed"});
}

TEST(PoseCheckTest, PanoramasAreNotAddedAndPerspectivesNotMasked) {
  v1::PoseSpec spec;
  spec.set_into("projects/default/scenes/garden");
  spec.set_camera(v1::PoseSpec::EQUIRECTANGULAR);
  EXPECT_EQ(FieldsOf(spec), std::vector<std::string>{"camera"});
  spec.set_camera(v1::PoseSpec::CAMERA_UNSPECIFIED);
  spec.set_mask_below_degrees(10);
  EXPECT_EQ(FieldsOf(spec), std::vector<std::string>{"mask_below_degrees"});
  spec.clear_into();
  EXPECT_TRUE(ProblemsOf(spec).empty());
  spec.set_camera(v1::PoseSpec::PERSPECTIVE);
  EXPECT_EQ(FieldsOf(spec), std::vector<std::string>{"mask_below_degrees"});
}

}  // namespace
}  // namespace nerf
