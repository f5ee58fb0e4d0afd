#include "engine/base/config/method_settings.h"

#include <gtest/gtest.h>

namespace nerf {
namespace {

struct Circle {
  int radius = 3;
  bool operator==(const Circle&) const = default;
};
struct Square {
  int side = 3;
  bool operator==(const Square&) const = default;
};

TEST(MethodSettingsTest, UntouchedOnesAreTheDefaultsOfAnyMethod) {
  const MethodSettings settings;
  EXPECT_EQ(settings.Get<Circle>().radius, 3);
  EXPECT_EQ(settings.Get<Square>().side, 3);
  MethodSettings touched;
  touched.Mutable<Circle>().radius = 3;
  EXPECT_EQ(settings, touched);
  EXPECT_EQ(touched, settings);
  EXPECT_TRUE(touched.Holds<Circle>());
  EXPECT_FALSE(touched.Holds<Square>());
}

TEST(MethodSettingsTest, CopiesAreIndependentAndCompareByValue) {
  MethodSettings one;
  one.Mutable<Circle>().radius = 4;
  MethodSettings two = one;
  EXPECT_EQ(one, two);
  two.Mutable<Circle>().radius = 5;
  EXPECT_EQ(one.Get<Circle>().radius, 4);
  EXPECT_NE(one, two);
  EXPECT_NE(one, MethodSettings());
  one = two;
  EXPECT_EQ(one, two);
  MethodSettings square;
  square.Mutable<Square>().side = 5;
  EXPECT_NE(one, square);
}

}  // namespace
}  // namespace nerf
