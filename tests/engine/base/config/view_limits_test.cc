#include "engine/base/config/view_limits.h"

#include <gtest/gtest.h>

#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

void ExpectSize(ViewSize camera, ViewSize asked, ViewSize expected) {
  const absl::StatusOr<ViewSize> size = ResolveViewSize(camera, asked);
  ASSERT_THAT(size, IsOk());
  EXPECT_EQ(size->width, expected.width);
  EXPECT_EQ(size->height, expected.height);
}

TEST(ViewLimitsTest, SidesThatAreNotAskedForFollowTheCamera) {
  ExpectSize({800, 600}, {0, 0}, {800, 600});
  ExpectSize({800, 600}, {400, 0}, {400, 300});
  ExpectSize({800, 600}, {0, 300}, {400, 300});
  ExpectSize({800, 600}, {10, 20}, {10, 20});
  ExpectSize({3, 2}, {4, 0}, {4, 3});  // 2.67, rounded
  ExpectSize({16384, 1}, {5, 0}, {5, 1});
  ExpectSize({0, 0}, {10, 20}, {10, 20});
}

TEST(ViewLimitsTest, WhatFollowsIsHeldToTheSameLimits) {
  ExpectSize({16384, 8}, {0, 8}, {16384, 8});
  ExpectSize({1, 1}, {8000, 8000}, {8000, 8000});
  const struct {
    ViewSize camera, asked;
    const char* words;
  } kRefused[] = {{{16384, 8}, {0, 16}, "32768 x 16"}, {{8, 16384}, {16, 0}, "16 x 32768"},
                  {{8, 8}, {16385, 1}, "16385 x 1"},   {{8, 8}, {8001, 8000}, "8001 x 8000"},
                  {{8, 8}, {8192, 0}, "8192 x 8192"},  {{16384, 16384}, {0, 0}, "16384 x 16384"},
                  {{0, 0}, {0, 0}, "0 x 0"},           {{0, 8}, {8, 0}, "8 x 1000000000"},
                  {{8, 8}, {-1, 5}, "-1 x 5"}};
  for (const auto& refused : kRefused) {
    EXPECT_THAT(ResolveViewSize(refused.camera, refused.asked),
                StatusIs(absl::StatusCode::kInvalidArgument, refused.words));
  }
}

}  // namespace
}  // namespace nerf
