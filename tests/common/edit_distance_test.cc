#include "common/edit_distance.h"

#include <gtest/gtest.h>

#include <vector>

namespace nerf {
namespace {

TEST(EditDistanceTest, CountsLettersToInsertDeleteReplaceAndExchange) {
  EXPECT_EQ(EditDistance("", ""), 0u);
  EXPECT_EQ(EditDistance("", "abc"), 3u);
  EXPECT_EQ(EditDistance("train", "train"), 0u);
  EXPECT_EQ(EditDistance("trian", "train"), 1u);
  EXPECT_EQ(EditDistance("mci", "mic"), 1u);
  EXPECT_EQ(EditDistance("npg", "ngp"), 1u);
  EXPECT_EQ(EditDistance("ca", "abc"), 3u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(EditDistance("sitting", "kitten"), 3u);
}

TEST(NearestWordTest, MisspeltWordIsFoundAndAStrangeOneIsNot) {
  const std::vector<std::string> words = {"train", "scene", "job", "render", "--steps"};
  EXPECT_EQ(NearestWord("trian", words), "train");
  EXPECT_EQ(NearestWord("jobs", words), "job");
  EXPECT_EQ(NearestWord("redner", words), "render");
  EXPECT_EQ(NearestWord("jbo", words), "job");
  EXPECT_EQ(NearestWord("--step", words), "--steps");
  EXPECT_EQ(NearestWord("banana", words), "");
  EXPECT_EQ(NearestWord("blain", words), "") << "two of five letters";
  EXPECT_EQ(NearestWord("rendre", words), "render");
  EXPECT_EQ(NearestWord("x", words), "");
  EXPECT_EQ(NearestWord("train", {}), "");
  EXPECT_EQ(DidYouMean("trian", words), "; did you mean train?");
  EXPECT_EQ(DidYouMean("banana", words), "");
}

TEST(NotOneOfTest, ListsTheKnownWordsAndTheNearest) {
  constexpr std::string_view kKnown[] = {"ngp", "mlp"};
  EXPECT_EQ(NotOneOf("npg", kKnown), "'npg' is not one of ngp, mlp; did you mean ngp?");
  EXPECT_EQ(NotOneOf("gaussians", kKnown), "'gaussians' is not one of ngp, mlp");
  EXPECT_EQ(NotOneOf(std::string(100, 'x'), kKnown),
            "'" + std::string(64, 'x') + "' is not one of ngp, mlp");
}

}  // namespace
}  // namespace nerf
