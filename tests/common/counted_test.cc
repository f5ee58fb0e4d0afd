#include "common/counted.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace nerf {
namespace {

TEST(CountedTest, OnlyOneIsSingular) {
  EXPECT_EQ(Counted(0, "view"), "0 views");
  EXPECT_EQ(Counted(1, "view"), "1 view");
  EXPECT_EQ(Counted(uint64_t{25}, "view"), "25 views");
}

}  // namespace
}  // namespace nerf
