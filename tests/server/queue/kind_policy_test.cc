#include "server/queue/kinds/kind_policy.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

TEST(KindPolicyTest, EachKindIsFoundByItsNumberAndItsName) {
  std::set<std::string_view> names, prefixes;
  for (size_t i = 0; i < KindPolicy::All().size(); ++i) {
    const auto kind = static_cast<JobKind>(i);
    const KindTraits& traits = TraitsOf(kind);
    SCOPED_TRACE(traits.name);
    EXPECT_EQ(traits.kind, kind);
    EXPECT_EQ(*ParseJobKind(traits.name), kind);
    names.insert(traits.name);
    prefixes.insert(traits.id_prefix);
  }
  EXPECT_EQ(names.size(), KindPolicy::All().size());
  EXPECT_EQ(prefixes.size(), KindPolicy::All().size());
}

TEST(KindPolicyTest, OldRecordsWithoutAKindAreTrainingsAndUnknownKindsAreRefused) {
  EXPECT_EQ(*ParseJobKind(""), JobKind::kTraining);
  EXPECT_THAT(ParseJobKind("BAKING"), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace nerf
