#include "engine/methods/ngp/chunk.h"

#include <algorithm>
#include <cmath>

#include "engine/field/kernels/simd_path.h"
#include "engine/field/occupancy_grid.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/parameters.h"
#include "engine/views/render/renderer.h"
#include "gtest/gtest.h"
#include "tests/testing/plain_bf16_unit.h"
#include "tests/testing/tiny_training.h"

namespace nerf {
namespace {

class NgpChunkTest : public testing::Test {
 protected:
  NgpChunkTest()
      : parameters_(config_, NgpHashGridShape({.log2_hashmap_size = 12})),
        grid_(FullOccupancyGrid(geometry_.box, 1, config_.grid_resolution)) {
    parameters_.InitializeRandomly();
  }

  // Rays of `batch`, one chunk for each pair of neighboring bounds.
  LaneOutput Run(const RayBatch& batch, const std::vector<int>& bounds, NgpChunk* chunk) {
    const std::vector<uint8_t> empty_distances = EmptyDistances(grid_);
    const ChunkInput input{
        .config = &config_,
        .network = {parameters_.shape(), geometry_.box, parameters_.table(), parameters_.weights(),
                    1, parameters_.half_table(), kernels::kMaxHashLevels,
                    takes_pairs_ ? parameters_.weight_pairs() : nullptr},
        .transposed_weights = parameters_.transposed_weights(),
        .transposed_pairs = takes_pairs_ ? parameters_.transposed_pairs() : nullptr,
        .grid = MarchGridOf(grid_, empty_distances),
        .steps = {geometry_.step, geometry_.cone},
        .scene_steps = {geometry_.step, geometry_.cone},
        .round_samples = look_samples_,
        .batch = &batch};
    weight_gradients_.assign(kNgpWeights, 0);
    LaneOutput output;
    output.weight_gradients = weight_gradients_.data();
    RaysInFlight in_flight;
    in_flight.Start(input, std::min(first_under_way_, bounds.front()), bounds.back());
    for (size_t i = 0; i + 1 < bounds.size(); ++i)
      chunk->Run(input, in_flight, bounds[i], bounds[i + 1], &output);
    return output;
  }

  TrainConfig config_ = TinyConfig();
  const SceneGeometry geometry_ = TinyGeometry();
  NgpParameters parameters_;
  OccupancyGrid grid_;
  std::vector<float> weight_gradients_;
  bool takes_pairs_ = false;
  int look_samples_ = kMinRoundSamples;
  int first_under_way_ = kRaysInFlight;  // where it lies before the first bound
};

TEST_F(NgpChunkTest, PairsOfTheWeightsGiveTheSameBytesAsTheWeights) {
  AddPlainBf16Unit();
  ASSERT_TRUE(kernels::cpu::ForceSimdPath("BF16_PLAIN"));
  parameters_.InitializeRandomly();
  ASSERT_NE(parameters_.transposed_pairs(), nullptr);
  const RayBatch batch = TinyBatch(20);
  NgpChunk chunk;
  const LaneOutput without = Run(batch, {0, 20}, &chunk);
  const std::vector<float> gradients_without = weight_gradients_;
  takes_pairs_ = true;
  const LaneOutput with = Run(batch, {0, 20}, &chunk);
  EXPECT_TRUE(std::ranges::equal(with.grad_encodings, without.grad_encodings));
  EXPECT_EQ(weight_gradients_, gradients_without);
  ASSERT_TRUE(kernels::cpu::ForceSimdPath("FP32"));
}

TEST_F(NgpChunkTest, SplittingRaysAmongChunksChangesNothingButTheOrder) {
  const RayBatch batch = TinyBatch(50);
  NgpChunk chunk;
  const LaneOutput whole = Run(batch, {0, 50}, &chunk);
  const std::vector<float> whole_gradients = weight_gradients_;
  const LaneOutput split = Run(batch, {0, 1, 4, 30, 50}, &chunk);
  EXPECT_EQ(split.n_marched, whole.n_marched);
  EXPECT_EQ(split.n_trained, whole.n_trained);
  EXPECT_EQ(split.positions.size(), whole.positions.size());
  // The same terms in double, in another order.
  EXPECT_NEAR(split.loss, whole.loss, 1e-6 * whole.loss);
  EXPECT_NEAR(split.squared_error, whole.squared_error, 1e-6 * whole.squared_error);
  float largest = 0;
  for (float g : whole_gradients) largest = std::max(largest, std::abs(g));
  ASSERT_GT(largest, 0);
  for (int i = 0; i < kNgpWeights; ++i)
    ASSERT_NEAR(weight_gradients_[i], whole_gradients[i], 1e-5f * largest) << i;
}

TEST_F(NgpChunkTest, LooksAndWavesLeaveNoSampleOut) {
  config_.min_transmittance = 0;
  const RayBatch batch = TinyBatch(40);
  NgpChunk chunk;
  LaneOutput often = Run(batch, {0, 40}, &chunk);  // 4 samples a look, 16 a wave
  look_samples_ = 64;
  LaneOutput once = Run(batch, {0, 40}, &chunk);
  ASSERT_GT(often.n_marched, 40 * 20) << "no ray marches on";
  EXPECT_EQ(often.n_marched, once.n_marched);
  EXPECT_EQ(often.n_trained, once.n_trained);
  EXPECT_EQ(often.n_trained, often.n_marched);
  std::ranges::sort(often.cells);
  std::ranges::sort(once.cells);
  EXPECT_EQ(often.cells, once.cells);
  std::ranges::sort(often.sigmas);
  std::ranges::sort(once.sigmas);
  EXPECT_EQ(often.sigmas, once.sigmas);
}

// Gradients are linear in what comes from a sample's color and density, so those of its encoding
// are scaled alike.
TEST_F(NgpChunkTest, GradientsNearTheCameraAreScaledByTheSquareOfTheDistance) {
  ASSERT_TRUE(kernels::cpu::ForceSimdPath("FP32"));
  config_.min_transmittance = 0;
  const RayBatch batch = TinyBatch(1);
  NgpChunk chunk;
  const LaneOutput plain = Run(batch, {0, 1}, &chunk);
  constexpr float kNear = 2.5f;  // the camera's distance from the center of the box
  Ngp(config_).near_gradients = kNear;
  const LaneOutput scaled = Run(batch, {0, 1}, &chunk);
  ASSERT_EQ(scaled.positions, plain.positions);
  int n_near = 0, n_far = 0;
  for (size_t i = 0; i < plain.positions.size(); ++i) {
    const Vec3 position = geometry_.box.min + plain.positions[i] * geometry_.box.Size();
    const float share = std::min(Norm(position - batch.rays[0].origin) / kNear, 1.0f);
    (share < 1 ? n_near : n_far) += 1;
    const size_t first = i / 16 * 16 * kEncodingWidth + i % 16 * 4;  // features of the first level
    for (size_t f = first; f < first + 4; ++f) {
      EXPECT_NEAR(scaled.grad_encodings[f], share * share * plain.grad_encodings[f],
                  1e-3f * std::abs(plain.grad_encodings[f]) + 1e-12f);
    }
  }
  EXPECT_GT(n_near, 0);
  EXPECT_GT(n_far, 0);
}

TEST_F(NgpChunkTest, ItDoesNotMatterWhichOtherRaysAreUnderWay) {
  const RayBatch batch = TinyBatch(50);
  NgpChunk chunk;
  const LaneOutput alone = Run(batch, {20, 30, 50}, &chunk);
  const std::vector<float> gradients = weight_gradients_;
  first_under_way_ = 3;
  const LaneOutput among_others = Run(batch, {20, 30, 50}, &chunk);
  EXPECT_GT(alone.n_trained, 0);
  EXPECT_EQ(among_others.cells, alone.cells);
  EXPECT_EQ(among_others.positions, alone.positions);
  EXPECT_TRUE(std::ranges::equal(among_others.grad_encodings, alone.grad_encodings));
  EXPECT_EQ(weight_gradients_, gradients);
}

TEST_F(NgpChunkTest, AUsedChunkWorksAsAFreshOne) {
  const RayBatch batch = TinyBatch(50);
  NgpChunk fresh, used;
  Run(TinyBatch(64, 9), {0, 64}, &used);
  const LaneOutput again = Run(batch, {0, 50}, &used);
  const std::vector<float> gradients = weight_gradients_;
  const LaneOutput first = Run(batch, {0, 50}, &fresh);
  EXPECT_EQ(again.loss, first.loss);
  EXPECT_TRUE(std::ranges::equal(again.grad_encodings, first.grad_encodings));
  EXPECT_EQ(again.positions, first.positions);
  EXPECT_EQ(weight_gradients_, gradients);
}

TEST_F(NgpChunkTest, RaysThatMeetNothingShowTheirBackground) {
  std::fill(grid_.occupied_blocks.begin(), grid_.occupied_blocks.end(), 0);
  RayBatch batch = TinyBatch(2);
  batch.backgrounds = {{0.5f, 0.5f, 0.5f}, {1, 0, 0}};
  batch.targets = {{0.5f, 0.5f, 0.5f}, {1, 0.05f, 0.6f}};
  NgpChunk chunk;
  const LaneOutput output = Run(batch, {0, 2}, &chunk);
  EXPECT_EQ(output.n_marched, 0);
  EXPECT_EQ(output.n_trained, 0);
  // Huber with delta 0.3: 0.05 is in its square part, 0.6 in its linear one.
  EXPECT_NEAR(output.loss, (0.5 * 0.0025 + 0.3 * (0.6 - 0.15)) / 3, 1e-7);
  EXPECT_NEAR(output.squared_error, (0.0025 + 0.36) / 3, 1e-7);
  EXPECT_TRUE(std::all_of(weight_gradients_.begin(), weight_gradients_.end(),
                          [](float g) { return g == 0; }));
}

TEST_F(NgpChunkTest, EveryMarchedSampleIsReportedWithItsCell) {
  const RayBatch batch = TinyBatch(50);
  NgpChunk chunk;
  const LaneOutput output = Run(batch, {0, 20, 50}, &chunk);
  ASSERT_EQ(static_cast<int64_t>(output.sigmas.size()), output.n_marched);
  ASSERT_EQ(output.cells.size(), output.sigmas.size());
  // The table is close to zero, so every density is close to exp(-1).
  for (size_t i = 0; i < output.sigmas.size(); ++i) {
    ASSERT_LT(output.cells[i], 32u * 32 * 32);
    ASSERT_NEAR(output.sigmas[i], std::exp(-1), 0.01);
  }
  for (const Vec3& p : output.positions) {
    for (int axis = 0; axis < 3; ++axis) {
      ASSERT_GE(p[axis], -1e-6f);
      ASSERT_LE(p[axis], 1 + 1e-6f);
    }
  }
}

TEST_F(NgpChunkTest, AlphaThresholdLeavesThinSamplesOut) {
  const RayBatch batch = TinyBatch(20);
  NgpChunk chunk;
  // Every sample has alpha 1 - exp(-0.37 * 0.054) = 0.02.
  config_.alpha_threshold = 0.01f;
  EXPECT_GT(Run(batch, {0, 20}, &chunk).n_trained, 0);
  config_.alpha_threshold = 0.03f;
  const LaneOutput output = Run(batch, {0, 20}, &chunk);
  EXPECT_GT(output.n_marched, 0);
  EXPECT_EQ(output.n_trained, 0);
}

}  // namespace
}  // namespace nerf
