#include "server/queue/kinds/kind_policy.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

TEST(KindPolicyTest, EachKindIsFoundByItsNumberAndItsNames) {
  const ResourceKey key{"lab", "one"};
  std::set<std::string_view> names, collections, prefixes;
  for (size_t i = 0; i < KindPolicy::All().size(); ++i) {
    const auto kind = static_cast<JobKind>(i);
    const KindTraits& traits = TraitsOf(kind);
    SCOPED_TRACE(traits.name);
    EXPECT_EQ(traits.kind, kind);
    EXPECT_EQ(*ParseJobKind(traits.name), kind);
    EXPECT_EQ(KindOfJobName(JobName(key, kind)), kind);
    EXPECT_EQ(*ParseJobName("name", JobName(key, kind), kind), key);
    names.insert(traits.name);
    collections.insert(traits.collection);
    prefixes.insert(traits.id_prefix);
  }
  EXPECT_EQ(names.size(), KindPolicy::All().size());
  EXPECT_EQ(collections.size(), KindPolicy::All().size());
  EXPECT_EQ(prefixes.size(), KindPolicy::All().size());
}

TEST(KindPolicyTest, OldRecordsWithoutAKindAreTrainingsAndUnknownKindsAreRefused) {
  EXPECT_EQ(*ParseJobKind(""), JobKind::kTraining);
  EXPECT_EQ(KindOfJobName("projects/lab/scenes/one"), JobKind::kTraining);
  EXPECT_THAT(ParseJobKind("BAKING"), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace nerf
