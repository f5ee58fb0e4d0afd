#include "engine/base/config/setting_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nerf {
namespace {

using ::testing::ElementsAre;

TEST(SettingListTest, CommaSeparatesWhereAKeyFollows) {
  EXPECT_THAT(SettingsIn({"near=1"}), ElementsAre("near=1"));
  EXPECT_THAT(SettingsIn({"near=1,beta1=0.9", "step=2"}),
              ElementsAre("near=1", "beta1=0.9", "step=2"));
  EXPECT_THAT(SettingsIn({"box=0,0,-1,2,up=-y"}), ElementsAre("box=0,0,-1,2", "up=-y"));
  EXPECT_THAT(SettingsIn({"near=1,", "nonsense", ",near=1"}),
              ElementsAre("near=1,", "nonsense", "", "near=1"));
  EXPECT_THAT(SettingsIn({}), ElementsAre());
}

}  // namespace
}  // namespace nerf
