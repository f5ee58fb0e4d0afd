// The AMX code on tiles that any machine has: what is checked is which words go into which tile and
// where the sums come out, by the instruction's definition, under bounds checks.
#include "engine/kernels/cpu/tile_product.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "engine/kernels/cpu/pair_units.h"
#include "tests/testing/random_floats.h"

namespace nerf::kernels::cpu {
namespace {

float Bf16(uint32_t half) { return std::bit_cast<float>(half << 16); }

// TDPBF16PS, TILELOADD and TILESTORED as Intel's manual gives them, for tiles of 16 rows of 64
// bytes.
struct PlainTiles {
  static inline bool is_configured = false;
  static inline uint32_t words[8][16][16];

  static void Begin() {
    EXPECT_FALSE(is_configured);
    is_configured = true;
    std::memset(words, 0xff, sizeof(words));  // NaN: what is not loaded shows
  }
  static void End() { is_configured = false; }
  template <int tile>
  static void Zero() {
    ASSERT_TRUE(is_configured);
    std::memset(words[tile], 0, sizeof(words[tile]));
  }
  template <int tile>
  static void Load(const void* rows, ptrdiff_t bytes) {
    ASSERT_TRUE(is_configured);
    for (int r = 0; r < 16; ++r)
      std::memcpy(words[tile][r], static_cast<const char*>(rows) + r * bytes, 64);
  }
  template <int tile>
  static void Store(void* rows, ptrdiff_t bytes) {
    ASSERT_TRUE(is_configured);
    for (int r = 0; r < 16; ++r)
      std::memcpy(static_cast<char*>(rows) + r * bytes, words[tile][r], 64);
  }
  template <int c, int a, int b>
  static void Multiply() {
    ASSERT_TRUE(is_configured);
    for (int m = 0; m < 16; ++m) {
      for (int k = 0; k < 16; ++k) {
        for (int n = 0; n < 16; ++n) {
          float sum = std::bit_cast<float>(words[c][m][n]);
          sum += Bf16(words[a][m][k] & 0xffff) * Bf16(words[b][k][n] & 0xffff);
          sum += Bf16(words[a][m][k] >> 16) * Bf16(words[b][k][n] >> 16);
          words[c][m][n] = std::bit_cast<uint32_t>(sum);
        }
      }
    }
  }
};

std::vector<uint32_t> RandomPairs(size_t n, uint32_t stream) {
  const std::vector<float> low = RandomFloats(n, -1, 1, stream),
                           high = RandomFloats(n, -1, 1, stream + 1);
  std::vector<uint32_t> pairs(n);
  for (size_t i = 0; i < n; ++i) {
    pairs[i] = std::bit_cast<uint32_t>(low[i]) >> 16;
    pairs[i] |= std::bit_cast<uint32_t>(high[i]) & 0xffff0000u;
  }
  return pairs;
}

// Every unit that this machine has, and the tile code on plain tiles, against double precision.
void ExpectProduct(void (*product)(const PairProductParams&), int n_rows, int n_pairs,
                   int n_columns, bool along_rows) {
  const std::vector<uint32_t> a = RandomPairs(static_cast<size_t>(n_rows) * n_pairs, 1);
  const std::vector<uint32_t> b = RandomPairs(static_cast<size_t>(n_pairs) * n_columns, 3);
  std::vector<float> c(static_cast<size_t>(n_rows) * n_columns, NAN);
  PairProductParams params{n_rows, n_pairs, n_columns, a.data(), 1, n_rows, b.data(), c.data()};
  if (along_rows) {
    params.row_step = n_pairs;
    params.pair_step = 1;
  }
  product(params);
  for (int r = 0; r < n_rows; ++r) {
    for (int n = 0; n < n_columns; ++n) {
      double sum = 0, magnitude = 0;
      for (int p = 0; p < n_pairs; ++p) {
        const uint32_t left = a[r * params.row_step + p * params.pair_step],
                       right = b[p * n_columns + n];
        const double low = double{Bf16(left & 0xffff)} * Bf16(right & 0xffff);
        const double high = double{Bf16(left >> 16)} * Bf16(right >> 16);
        sum += low + high;
        magnitude += std::abs(low) + std::abs(high);
      }
      ASSERT_NEAR(c[r * n_columns + n], sum, (2 * n_pairs + 1) * 0x1p-24 * magnitude)
          << r << ", " << n;
    }
  }
}

void ExpectProducts(void (*product)(const PairProductParams&)) {
  for (const bool along_rows : {true, false}) {
    for (const int n_rows : {16, 32, 48, 64, 128}) {
      for (const int n_pairs : {16, 32, 64}) {
        for (const int n_columns : {16, 32, 48, 64}) {
          ExpectProduct(product, n_rows, n_pairs, n_columns, along_rows);
          if (testing::Test::HasFailure()) {
            FAIL() << n_rows << " x " << n_pairs << " x " << n_columns << " " << along_rows;
          }
        }
      }
    }
  }
}

TEST(TileProductTest, TilesAreLaidOutAsTheInstructionWants) {
  ExpectProducts(TileProduct<PlainTiles>);
  EXPECT_FALSE(PlainTiles::is_configured) << "let go of when all is stored";
}

TEST(TileProductTest, EveryUnitOfThisMachineAgreesWithDoublePrecision) {
  for (const PairUnit& unit : PairUnits()) {
    SCOPED_TRACE(unit.name);
    if (unit.product != nullptr) ExpectProducts(unit.product);
  }
}

TEST(TileProductTest, WordsAreTransposed) {
  uint32_t from[16 * 20], to[16 * 17];
  for (uint32_t i = 0; i < 16 * 20; ++i) from[i] = i;
  for (uint32_t& word : to) word = 9999;
  TransposeWords(from, 20, to, 17);
  for (uint32_t r = 0; r < 16; ++r) {
    for (uint32_t c = 0; c < 16; ++c) ASSERT_EQ(to[c * 17 + r], r * 20 + c);
    ASSERT_EQ(to[r * 17 + 16], 9999u);
  }
}

}  // namespace
}  // namespace nerf::kernels::cpu
