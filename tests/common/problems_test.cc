#include "common/problems.h"

#include <gtest/gtest.h>

#include <iterator>
#include <string>

namespace nerf {
namespace {

TEST(ProblemsTest, EveryProblemIsSaidOnce) {
  Problems problems;
  EXPECT_TRUE(problems.Result().ok());
  problems.Require(true, "a", "is right");
  problems.Require(false, "a", "is wrong");
  problems.Add("a", "is wrong");
  problems.Add("a.json", "a", "is wrong");
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0], Problem("a", "is wrong"));
  EXPECT_EQ(problems[1], Problem("a.json", "a", "is wrong"));
}

TEST(ProblemsTest, StatusesAreTakenApart) {
  Problems problems;
  problems.Add(absl::OkStatus());
  problems.Add("--set", absl::OkStatus());
  problems.Add(InvalidFieldsError({{"a", "is wrong"}, {"", "is odd"}}));
  problems.Add(absl::NotFoundError("--steps: is 0"));
  problems.Add(absl::NotFoundError("no such file: x"));
  int value = 0;
  problems.AddOrAssign(absl::StatusOr<int>(3), &value);
  problems.AddOrAssign(absl::StatusOr<int>(absl::InternalError("bad")), &value);
  EXPECT_EQ(value, 3);
  const Problem expected[] = {
      {"a", "is wrong"}, {"", "is odd"}, {"--steps", "is 0"}, {"", "no such file: x"}, {"", "bad"}};
  ASSERT_EQ(problems.size(), std::size(expected));
  for (size_t i = 0; i < problems.size(); ++i) EXPECT_EQ(problems[i], expected[i]);
  EXPECT_EQ(GetProblems(problems.Result()), problems.list());
}

TEST(ProblemsTest, PartsHaveTheirFieldBefore) {
  Problems part, whole;
  part.Add("size", "is wrong");
  part.Add("", "is missing");
  whole.Add(part, "style");
  whole.Add(part);
  ASSERT_EQ(whole.size(), 4u);
  EXPECT_EQ(whole[0].field, "style.size");
  EXPECT_EQ(whole[1].field, "style");
  EXPECT_EQ(whole[2].field, "size");
  EXPECT_EQ(whole[3].field, "");
}

TEST(ProblemsTest, ListsEndAtAThousandAndSaySo) {
  Problems problems;
  for (int i = 0; i < 5000; ++i) problems.Add(std::to_string(i), "is wrong");
  ASSERT_EQ(problems.size(), 1001u);
  EXPECT_EQ(problems[1000].message, "there are more problems than these");
}

}  // namespace
}  // namespace nerf
