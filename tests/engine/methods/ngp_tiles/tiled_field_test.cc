#include "engine/methods/ngp_tiles/tiled_field.h"

#include <gtest/gtest.h>

#include "engine/methods/ngp/steps.h"
#include "engine/methods/ngp_tiles/tiled_model.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tiny_training.h"

namespace nerf {
namespace {

constexpr int kSamples = 300;

class TiledFieldTest : public ::testing::Test {
 protected:
  TiledFieldTest() { config_.method = "ngp-tiles"; }

  // A model of ngp with random values of its own.
  std::unique_ptr<TrainedModel> Model(uint32_t values) {
    const auto step = NewNgpCpuStep(config_, geometry_, &pool_);
    TensorFile state = LivelyState(*step);
    Tensor& table = state.tensors.at("average.field.hash_table");
    const std::vector<float> floats = RandomFloats(table.n_elements(), -1, 1, values);
    table = TensorFromFloats(floats.data(), table.shape, DType::kF32);
    EXPECT_THAT(step->Load(state), IsOk());
    return step->Snapshot();
  }

  static const RadianceField& FieldOf(const TrainedModel& model) {
    return dynamic_cast<const MarchedModel&>(model).field();
  }

  // Densities at points and, of every other one, colors.
  struct Found {
    std::vector<float> sigmas = std::vector<float>(kSamples);
    std::vector<Vec3> colors = std::vector<Vec3>(kSamples / 2);
  };
  static Found Evaluate(const RadianceField& field, const std::vector<Vec3>& points) {
    Found found;
    const auto workspace = field.NewWorkspace(kSamples);
    std::vector<int> samples;
    for (int i = 0; i < kSamples; i += 2) samples.push_back(i);
    const std::vector<Vec3> directions = RandomDirections(kSamples / 2, 9);
    field.Density(kSamples, points.data(), found.sigmas.data(), workspace.get());
    field.Color(kSamples / 2, samples.data(), directions.data(), found.colors.data(),
                workspace.get());
    return found;
  }

  std::unique_ptr<TrainedModel> Tiled(bool blend,
                                      std::vector<std::unique_ptr<TrainedModel>> models) {
    Ngp(config_).tile_blend = blend ? 1 : 0;
    Ngp(config_).tile_margin = 0.2f;
    return NewTiledModel(cuts_, config_, geometry_, std::move(models));
  }

  ThreadPool pool_{1};
  TrainConfig config_ = TinyConfig();
  const SceneGeometry geometry_ = TinyGeometry();
  const TileCuts cuts_{std::vector<TileCut>{{0, 0.1f}, {1, 0}, {2, -0.2f}}};
  const std::vector<Vec3> points_ = RandomPoints(kSamples, -1, 1, 8);
};

TEST_F(TiledFieldTest, EachPointIsOfItsOwnTile) {
  std::vector<std::unique_ptr<TrainedModel>> models, copies;
  std::vector<Found> alone;
  for (uint32_t tile = 0; tile < 4; ++tile) {
    models.push_back(Model(100 + tile));
    alone.push_back(Evaluate(FieldOf(*models.back()), points_));
  }
  const auto tiled = Tiled(false, std::move(models));
  const Found found = Evaluate(FieldOf(*tiled), points_);
  float weights[4];
  for (int i = 0; i < kSamples; ++i) {
    cuts_.Weights(points_[i], 0, weights);
    const auto tile = std::find(weights, weights + 4, 1.0f) - weights;
    EXPECT_EQ(found.sigmas[i], alone[tile].sigmas[i]);
    if (i % 2 == 0) {
      EXPECT_EQ(found.colors[i / 2], alone[tile].colors[i / 2]);
    }
  }
}

TEST_F(TiledFieldTest, InTheMarginDensitiesAddUpAndColorsAreTheirMean) {
  std::vector<std::unique_ptr<TrainedModel>> models;
  std::vector<Found> alone;
  for (uint32_t tile = 0; tile < 4; ++tile) {
    models.push_back(Model(200 + tile));
    alone.push_back(Evaluate(FieldOf(*models.back()), points_));
  }
  const auto tiled = Tiled(true, std::move(models));
  const Found found = Evaluate(FieldOf(*tiled), points_);
  int n_blended = 0;
  float weights[4];
  for (int i = 0; i < kSamples; ++i) {
    cuts_.Weights(points_[i], TileMargin(config_, geometry_), weights);
    float sigma = 0;
    Vec3 color;
    for (int tile = 0; tile < 4; ++tile) {
      const float share = weights[tile] * alone[tile].sigmas[i];
      sigma += share;
      color = color + alone[tile].colors[i / 2] * share;
    }
    n_blended += std::count_if(weights, weights + 4, [](float w) { return w > 0; }) > 1 ? 1 : 0;
    EXPECT_NEAR(found.sigmas[i], sigma, 1e-5f * sigma);
    if (i % 2 == 0) {
      EXPECT_LT(Norm(found.colors[i / 2] - color * (1 / sigma)), 1e-5f);
    }
  }
  EXPECT_GT(n_blended, 50);
}

// What is cut into tiles of one field looks like that field: rays go through tiles in order, none
// twice, and end alike.
TEST_F(TiledFieldTest, TilesOfOneFieldRenderAsThatField) {
  const auto alone = Model(300);
  std::vector<Ray> rays;
  for (const Ray& ray : TinyBatch(TrainedModel::kMaxTileRays).rays) rays.push_back(ray);
  const auto render = [&](const TrainedModel& model) {
    std::vector<RenderedRay> rendered(rays.size());
    const auto workspace = model.NewWorkspace();
    RayTile tile;
    tile.rays = rays;
    EXPECT_TRUE(model.RenderRays(tile, {}, workspace.get(), rendered.data()));
    return rendered;
  };
  const std::vector<RenderedRay> expected = render(*alone);
  for (const bool blend : {false, true}) {
    std::vector<std::unique_ptr<TrainedModel>> models;
    for (int tile = 0; tile < 4; ++tile) models.push_back(Model(300));
    const auto tiled = Tiled(blend, std::move(models));
    EXPECT_EQ(tiled->method(), "ngp-tiles");
    EXPECT_FALSE(tiled->NeedsCpu());
    const std::vector<RenderedRay> found = render(*tiled);
    for (size_t r = 0; r < rays.size(); ++r) {
      EXPECT_LT(Norm(found[r].color - expected[r].color), 2e-3f) << r;
      EXPECT_NEAR(found[r].opacity, expected[r].opacity, 2e-3f);
      EXPECT_NEAR(found[r].depth, expected[r].depth, 2e-2f);
    }
  }
}

TEST_F(TiledFieldTest, CellsAreThoseOfTheTilesThatReachThem) {
  OccupancyGrid empty = FullOccupancyGrid(geometry_.box, 2, 8), full = empty;
  std::fill(empty.occupied_blocks.begin(), empty.occupied_blocks.end(), uint64_t{0});
  const TileCuts two(std::vector<TileCut>{{0, -0.5f}});
  const OccupancyGrid* const below[] = {&full, &empty};
  // Level 0 has two blocks of 1 unit along an axis, level 1 two of 2 units.
  const OccupancyGrid merged = MergeTileGrids(two, 0.1f, below);
  EXPECT_TRUE(merged.Occupied(0, 0, 0, 0));
  EXPECT_FALSE(merged.Occupied(0, 4, 0, 0));
  EXPECT_TRUE(merged.Occupied(1, 0, 0, 0));
  EXPECT_FALSE(merged.Occupied(1, 4, 0, 0));
  EXPECT_TRUE(MergeTileGrids(two, 0.6f, below).Occupied(0, 4, 0, 0)) << "the margin reaches it";
}

}  // namespace
}  // namespace nerf
