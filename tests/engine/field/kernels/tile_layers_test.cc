// The layers of the AMX unit on emulated tiles: checks that tiles are used as the instructions
// require. Results are checked by dense_layer_test.cc, whose unit BF16_PLAIN is the same layers on
// the same tiles.
#include "engine/field/kernels/cpu/tile_layers.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/testing/plain_tiles.h"
#include "tests/testing/random_floats.h"

namespace nerf::kernels::cpu {
namespace {

// Checks the use of each tile and counts products.
struct WatchedTiles : PlainTiles {
  static inline bool is_configured = false;
  static inline bool is_set[8] = {};
  static inline int n_multiplied = 0;

  static void Configure() {
    PlainTiles::Configure();
    is_configured = true;
    for (bool& set : is_set) set = false;
  }
  template <int tile>
  static void Zero() {
    EXPECT_TRUE(is_configured);
    PlainTiles::Zero<tile>();
    is_set[tile] = true;
  }
  template <int tile>
  static void Load(const void* rows, ptrdiff_t bytes) {
    EXPECT_TRUE(is_configured);
    EXPECT_GE(bytes, 64) << "rows of a tile would overlap";
    PlainTiles::Load<tile>(rows, bytes);
    is_set[tile] = true;
  }
  template <int tile>
  static void Save(void* rows, ptrdiff_t bytes) {
    EXPECT_TRUE(is_set[tile]);
    EXPECT_GE(bytes, 64);
    PlainTiles::Save<tile>(rows, bytes);
  }
  template <int c, int a, int b>
  static void Multiply() {
    EXPECT_TRUE(is_set[c] && is_set[a] && is_set[b]);
    EXPECT_TRUE(c != a && c != b && a != b) << "the instruction faults";
    PlainTiles::Multiply<c, a, b>();
    ++n_multiplied;
  }
};

class TileLayersTest : public testing::Test {
 protected:
  // The number of tile products of a layer, run as the first one on its thread.
  template <typename Params>
  static int Multiplied(void (*layer)(const Params&), const Params& params) {
    WatchedTiles::is_configured = false;
    for (bool& set : WatchedTiles::is_set) set = false;
    WatchedTiles::n_multiplied = 0;
    layer(params);
    return WatchedTiles::n_multiplied;
  }
  // The least number of tile products for a product of these dimensions.
  static int Tiles(int n_rows, int n_pairs, int n_columns) {
    const auto tiles = [](int n) { return (n + kTileSide - 1) / kTileSide; };
    return tiles(n_rows) * tiles(n_pairs) * tiles(n_columns);
  }
};

TEST_F(TileLayersTest, TilesAreSetBeforeTheyAreMultipliedAndNoneIsMultipliedTwice) {
  for (const int n_rows : {1, 16, 17, 32, 100}) {
    for (const int n_in : {16, 32, 48, 64, 128}) {
      for (const int n_out : {16, 48, 64, 128}) {
        const std::vector<float> inputs = RandomFloats(n_rows * n_in, -1, 1, 1);
        const std::vector<float> weights = RandomFloats(n_in * n_out, -1, 1, 2);
        std::vector<float> outputs(n_rows * n_out), gradient(n_in * n_out);
        const DenseForwardParams forward{.n_rows = n_rows,
                                         .n_in = n_in,
                                         .n_out = n_out,
                                         .inputs = inputs.data(),
                                         .input_stride = n_in,
                                         .weights = weights.data(),
                                         .outputs = outputs.data(),
                                         .output_stride = n_out};
        EXPECT_EQ(Multiplied(TileForward<WatchedTiles>, forward), Tiles(n_rows, n_in / 2, n_out));
        const DenseBackwardWeightsParams to_weights{.n_rows = n_rows,
                                                    .n_in = n_in,
                                                    .n_out = n_out,
                                                    .inputs = inputs.data(),
                                                    .input_stride = n_in,
                                                    .grad_outputs = outputs.data(),
                                                    .grad_output_stride = n_out,
                                                    .grad_weights = gradient.data()};
        EXPECT_EQ(Multiplied(TileBackwardWeights<WatchedTiles>, to_weights),
                  Tiles(n_in, (n_rows + 1) / 2, n_out));
        std::vector<float> grad_inputs(n_rows * n_in);
        const DenseBackwardInputParams to_inputs{.n_rows = n_rows,
                                                 .n_in = n_in,
                                                 .n_out = n_out,
                                                 .grad_outputs = outputs.data(),
                                                 .grad_output_stride = n_out,
                                                 .weights = weights.data(),
                                                 .grad_inputs = grad_inputs.data(),
                                                 .grad_input_stride = n_in};
        EXPECT_EQ(Multiplied(TileBackwardInput<WatchedTiles>, to_inputs),
                  Tiles(n_rows, n_out / 2, n_in));
        if (HasFailure()) FAIL() << n_rows << " rows, " << n_in << " x " << n_out;
      }
    }
  }
}

TEST_F(TileLayersTest, WordsAreTransposed) {
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
