#include "engine/base/method_list/settings_help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string_view>

#include "engine/base/method_list/method_descriptions.h"

namespace nerf {
namespace {

using ::testing::MatchesRegex;

const MethodDescription& Ngp() { return *FindMethodDescription("ngp"); }

TEST(SettingsHelpTest, EverySettingHasItsDefaultItsRangeAndItsMeaning) {
  const auto settings = DescribeSettings(Ngp());
  const auto defaults = ConfigSettings(TrainConfig());
  ASSERT_EQ(settings.size(), defaults.size());
  for (const SettingHelp& setting : settings) {
    EXPECT_EQ(setting.default_value, defaults.at(std::string(setting.key)));
    const std::set<std::string_view> without_range = {
        "box", "boxes", "contraction", "frozen", "loss", "poses", "sampler", "spacing", "up"};
    EXPECT_EQ(setting.range.has_value(), !without_range.contains(setting.key)) << setting.key;
    EXPECT_FALSE(setting.text.empty()) << setting.key;
  }
}

TEST(SettingsHelpTest, TableHasALineASettingAndItsColumnsStandUnderTheirHeads) {
  std::istringstream table(SettingsTable(Ngp()));
  std::string line;
  std::getline(table, line);
  EXPECT_THAT(line, MatchesRegex("KEY  +DEFAULT  +RANGE  +MEANING"));
  const size_t columns[] = {line.find("DEFAULT"), line.find("RANGE"), line.find("MEANING")};
  size_t n = 0;
  for (; std::getline(table, line); ++n) {
    for (size_t column : columns) {
      EXPECT_EQ(line.substr(column - 2, 2), "  ") << line;
      EXPECT_NE(line[column], ' ') << line;
    }
    if (line.starts_with("huber_delta ")) {
      EXPECT_THAT(line, MatchesRegex("huber_delta +0\\.3 +0\\.0001 to 10 +Huber loss: .*"));
    }
  }
  EXPECT_EQ(n, DescribeSettings(Ngp()).size());
}

TEST(SettingsHelpTest, SettingsOfSomeDevicesSaySoAndThoseOfNoneAreLeftOut) {
  const auto text_of = [](const char* method, std::string_view key) -> std::string {
    for (const SettingHelp& setting : DescribeSettings(*FindMethodDescription(method))) {
      if (setting.key == key) return setting.text;
    }
    return "none";
  };
  EXPECT_THAT(text_of("ngp", "half_table"), testing::StartsWith("1 reads the hash table"));
  EXPECT_THAT(text_of("ngp", "cuda_fp32"), testing::StartsWith("on CUDA: "));
  EXPECT_EQ(text_of("ngp-autograd", "half_table"), "none");
  EXPECT_THAT(text_of("ngp", "near"),
              testing::HasSubstr("in ngp for panoramas without points half of their spacing"));
}

}  // namespace
}  // namespace nerf
