#include "common/ids.h"

#include <set>

#include "tests/testing/fake_random.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

TEST(IdsTest, ShortIdsAreResourceIdsAndDiffer) {
  FakeRandom random;
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) {
    const std::string id = NewShortId("j", random);
    EXPECT_TRUE(IsResourceId(id)) << id;
    EXPECT_EQ(id.size(), 10u);
    ids.insert(id);
  }
  EXPECT_EQ(ids.size(), 1000u);
}

TEST(IdsTest, UuidsAreVersionFour) {
  FakeRandom random;
  SystemRandom system;
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(IsUuid4(NewUuid4(random)));
  EXPECT_TRUE(IsUuid4(NewUuid4(system)));
  EXPECT_NE(NewUuid4(system), NewUuid4(system));
}

TEST(IdsTest, ResourceIdsFollowTheRule) {
  for (const std::string& good : {std::string("a"), std::string("scene-1"), std::string(63, 'a')}) {
    EXPECT_TRUE(IsResourceId(good)) << good;
  }
  for (const std::string& bad :
       {std::string(), std::string("1a"), std::string("-a"), std::string("a-"), std::string("A"),
        std::string("a_b"), std::string("a/b"), std::string(".."), std::string("a\0b", 3),
        std::string("\xc3\xa4"), std::string(64, 'a')}) {
    EXPECT_FALSE(IsResourceId(bad)) << bad;
  }
}

TEST(IdsTest, OtherUuidsAreRefused) {
  EXPECT_TRUE(IsUuid4("0b8f2c9e-5a4d-4c3b-9a27-6f1e0d2c3b4a"));
  EXPECT_TRUE(IsUuid4("0B8F2C9E-5A4D-4C3B-9A27-6F1E0D2C3B4A"));
  EXPECT_FALSE(IsUuid4(""));
  EXPECT_FALSE(IsUuid4("0b8f2c9e-5a4d-1c3b-9a27-6f1e0d2c3b4a")) << "version 1";
  EXPECT_FALSE(IsUuid4("0b8f2c9e-5a4d-4c3b-7a27-6f1e0d2c3b4a")) << "wrong variant";
  EXPECT_FALSE(IsUuid4("0b8f2c9e-5a4d-4c3b-9a27-6f1e0d2c3b4"));
  EXPECT_FALSE(IsUuid4("0b8f2c9e05a4d-4c3b-9a27-6f1e0d2c3b4a"));
  EXPECT_FALSE(IsUuid4("../../../../../../etc/passwd00000000"));
}

TEST(IdsTest, CheckNamesTheField) {
  EXPECT_THAT(CheckResourceId("scene_id", "scene"), IsOk());
  EXPECT_THAT(CheckResourceId("scene_id", "No"),
              StatusIs(absl::StatusCode::kInvalidArgument, "scene_id: must be"));
  EXPECT_THAT(CheckResourceId("scene_id", "No"),
              FailsWith(absl::StatusCode::kInvalidArgument, reason::kFieldInvalid));
}

}  // namespace
}  // namespace nerf
