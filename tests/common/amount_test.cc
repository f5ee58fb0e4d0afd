#include "common/amount.h"

#include <gtest/gtest.h>

#include <utility>

namespace nerf {
namespace {

TEST(AmountTest, UnitsOfLargeNumbersInBothCasesOfK) {
  for (const auto& [text, number] : {std::pair{"40000000", 4e7},
                                     {"4e7", 4e7},
                                     {"40M", 4e7},
                                     {"300k", 3e5},
                                     {"300K", 3e5},
                                     {"1.5G", 1.5e9},
                                     {"4.1M", 4.1e6},
                                     {"0.003k", 3.0},
                                     {"-1", -1.0}}) {
    EXPECT_EQ(ParseAmount(text), number) << text;
  }
  for (const char* text :
       {"", "k", "M", "40m", "40MB", "1e", "4 0", "inf", "nan", "1e400", "ten"}) {
    EXPECT_EQ(ParseAmount(text), std::nullopt) << text;
  }
}

TEST(AmountTest, TimesHaveUnitsOrAreSeconds) {
  for (const auto& [text, seconds] :
       {std::pair{"90", 90.0}, {"2.5", 2.5}, {"90s", 90.0}, {"5m", 300.0}, {"1h30m", 5400.0}}) {
    EXPECT_EQ(ParseTimeSpan(text), absl::Seconds(seconds)) << text;
  }
  for (const char* text : {"", "0", "-5", "5 m", "5d", "inf", "nan", "9999h", "soon"}) {
    EXPECT_EQ(ParseTimeSpan(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace nerf
