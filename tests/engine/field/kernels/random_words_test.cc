#include "engine/field/kernels/random_words.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/testing/simd_paths.h"

namespace nerf::kernels {
namespace {

// Known answer of the paper's authors: Philox4x32-10 of zeros, which is the first of seed 0.
TEST(FillRandomWordsTest, ZeroCounterGivesThePublishedWords) {
  uint32_t words[4];
  cpu::FillRandomWords({.n = 1, .words = {&words[0], &words[1], &words[2], &words[3]}});
  EXPECT_EQ(words[0], 0x6627e8d5u);
  EXPECT_EQ(words[1], 0xe169c58du);
  EXPECT_EQ(words[2], 0xbc57ac4cu);
  EXPECT_EQ(words[3], 0x9b00dbd8u);
}

class FillRandomWordsPathTest : public SimdPathTest {};

TEST_P(FillRandomWordsPathTest, GivesTheWordsOfOneAtATime) {
  for (const int n : {0, 1, 3, 8, 31, 64, 100}) {
    for (const uint32_t first : {0u, 7u, 0xfffffff0u}) {
      const size_t size = static_cast<size_t>(n) + 1;
      std::vector<std::vector<uint32_t>> words(4, std::vector<uint32_t>(size, 77));
      const uint64_t seed = 0x123456789abcdef0u + first;
      cpu::FillRandomWords(
          {.seed = seed,
           .use = RandomUse::kRayJitter,
           .step = 0xfedcba98u,
           .first = first,
           .n = n,
           .words = {words[0].data(), words[1].data(), words[2].data(), words[3].data()}});
      for (int i = 0; i < n; ++i) {
        const auto expected =
            RandomWords(seed, RandomUse::kRayJitter, 0xfedcba98u, first + static_cast<uint32_t>(i));
        for (int w = 0; w < 4; ++w) ASSERT_EQ(words[w][i], expected[w]) << n << " " << i;
      }
      for (int w = 0; w < 4; ++w) EXPECT_EQ(words[w][n], 77u) << "written beyond the end";
    }
  }
}

NERF_INSTANTIATE_SIMD_PATHS(FillRandomWordsPathTest);

}  // namespace
}  // namespace nerf::kernels
