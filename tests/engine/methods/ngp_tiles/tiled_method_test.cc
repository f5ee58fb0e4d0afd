// Files, settings and rays of method ngp-tiles. That it learns, and to the same bytes on any number
// of threads, stopped or not, is in fused_methods_test.cc.
#include <gtest/gtest.h>

#include <limits>

#include "engine/base/method_list/method_descriptions.h"
#include "engine/methods/ngp_tiles/describe/tile_tensors.h"
#include "engine/methods/ngp_tiles/tile_files.h"
#include "engine/methods/ngp_tiles/tiled_step.h"
#include "engine/methods/registry.h"
#include "engine/program/bench/synthetic_scene.h"
#include "engine/train/batch/pixel_sampler.h"
#include "engine/train/method.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tiny_training.h"

namespace nerf {
namespace {

using ::absl::StatusCode;

TrainConfig TiledConfig(int n_tiles) {
  TrainConfig config = TinyConfig();
  config.method = "ngp-tiles";
  Ngp(config).tiles = n_tiles;
  return config;
}

TEST(TiledMethodTest, WhatATileDoesNotHonorIsRefusedByName) {
  TrainConfig config = *DefaultConfig("ngp-tiles");
  EXPECT_THAT(ValidateConfig(config), IsOk());
  for (const char* key : {"pose_rate", "focal_rate", "exposure_rate", "appearance_rate",
                          "depth_weight", "contraction", "coarse_pictures", "error_share"})
    EXPECT_THAT(SetConfigField(key, "1", &config), StatusIs(StatusCode::kInvalidArgument, key));
  EXPECT_THAT(SetConfigField("tiles", "3", &config), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(SetConfigField("tiles", "1", &config), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(SetConfigField("tiles", "32", &config), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(SetConfigField("tiles", "8", &config), IsOk());
  EXPECT_THAT(CheckDeviceHonors(config, "cuda:0"), IsOk());
  EXPECT_THAT(MethodDescriptionOf(config).CheckRanks(config, kOnCpu, 2),
              StatusIs(StatusCode::kUnimplemented, "ngp-tiles"));
  TrainConfig other;
  EXPECT_THAT(SetConfigField("tiles", "2", &other), StatusIs(StatusCode::kInvalidArgument));
}

class TileTrainingTest : public testing::TestWithParam<TileTraining> {};
INSTANTIATE_TEST_SUITE_P(Both, TileTrainingTest,
                         testing::Values(TileTraining::kIndependent, TileTraining::kJoint));

TEST_P(TileTrainingTest, ModelsHaveTheTensorsThatAreDescribed) {
  const Scene scene = SyntheticBallScene(3, 0, 16);
  TrainConfig config = TiledConfig(4);
  Ngp(config).tile_training = GetParam();
  ThreadPool pool(1);
  const auto step = MethodOf(config).NewStep({config, scene.geometry, scene, std::nullopt, &pool});
  ASSERT_THAT(step, IsOk());
  TensorFile model;
  (*step)->SaveModel(&model);
  for (const TensorShape& shape : FieldTensorShapes(config)) {
    ASSERT_TRUE(model.tensors.contains(shape.name)) << shape.name;
    const Tensor& tensor = model.tensors.at(shape.name);
    EXPECT_EQ(tensor.shape, shape.shape) << shape.name;
    EXPECT_EQ(DTypeName(tensor.dtype), shape.dtype) << shape.name;
  }
}

TEST(TiledMethodTest, DamagedFilesAreRefusedAndChangeNothing) {
  const Scene scene = SyntheticBallScene(3, 0, 16);
  const TrainConfig config = TiledConfig(2);
  ThreadPool pool(1);
  const auto step = NewTiledStep(config, scene.geometry, scene, &pool);
  const TensorFile good = Saved(*step);
  const auto refused = [&](const TensorFile& file, const char* name) {
    EXPECT_THAT(step->Load(file), StatusIs(StatusCode::kInvalidArgument, name));
    EXPECT_TRUE(SameContents(Saved(*step), good));
  };
  for (const char* name : {"tiles.cuts", "tile1.field.hash_table", "tile0.occupancy.bits"}) {
    TensorFile file = good;
    file.tensors.erase(name);
    // The grid's tensors are named without the tile's prefix.
    refused(file, std::string_view(name).substr(name[4] == 's' ? 0 : 6).data());
  }
  TensorFile no_steps = good;
  no_steps.metadata.erase("tiles.steps");
  refused(no_steps, "tiles.steps");
  for (const std::vector<float>& cut :
       {std::vector<float>{3, 0}, {0.5f, 0}, {0, std::numeric_limits<float>::quiet_NaN()}}) {
    TensorFile file = good;
    file.tensors[kTileCutsName] = TensorFromFloats(cut.data(), {1, 2}, DType::kF32);
    refused(file, "tiles.cuts");
    EXPECT_THAT(MethodOf(config).LoadModel(file, config, scene.geometry).status(),
                StatusIs(StatusCode::kInvalidArgument, "tiles.cuts"));
  }
  EXPECT_THAT(NewTiledStep(TiledConfig(4), scene.geometry, scene, &pool)->Load(good),
              StatusIs(StatusCode::kInvalidArgument, "tiles.cuts"));
}

// A tile learns from its own rays alone: others' pictures change nothing in it.
TEST(TiledMethodTest, ATileIsTrainedOnTheRaysThatMeetIt) {
  const Scene scene = SyntheticBallScene(4, 0, 24);
  TrainConfig config = TiledConfig(2);
  Ngp(config).tile_margin = 0.05f;
  ThreadPool pool(2);
  const auto trained = [&](bool spoil) {
    const auto step = NewTiledStep(config, scene.geometry, scene, &pool);
    const TileCuts cuts = CutsOf(config, scene.geometry, scene);
    const float margin = 0.05f * scene.geometry.box.Size().x;
    const Aabb reach = TileReach(cuts.boxes()[0], margin, scene.geometry.box);
    const PixelSampler sampler(scene.train, Background::kBlack, 1);
    PixelBatch batch;
    int n_spoiled = 0;
    for (uint32_t i = 0; i < 6; ++i) {
      sampler.Fill(i, step->NextPixels(0.1), &pool, &batch);
      for (int p = 0; spoil && p < batch.n_pixels; ++p) {
        const Pixel& pixel = batch.pixels[p];
        Ray ray = kernels::PixelRay(LensOf(scene.train[pixel.view].camera), pixel.x, pixel.y,
                                    scene.geometry.near);
        if (Meets(ray, reach)) continue;
        batch.targets[p] = {1, 0, 1};
        ++n_spoiled;
      }
      step->Run(batch);
    }
    if (spoil) {
      EXPECT_GT(n_spoiled, 0);
    }
    return Saved(*step);
  };
  const TensorFile clean = trained(false), spoiled = trained(true);
  EXPECT_TRUE(SameContents(TileOf(clean, 0), TileOf(spoiled, 0)));
  EXPECT_FALSE(SameContents(TileOf(clean, 1), TileOf(spoiled, 1)));
}

TEST(TiledMethodTest, CutsFollowThePointsOfAScene) {
  Scene scene = SyntheticBallScene(3, 0, 16);
  for (const Vec3 p : RandomPoints(2000, 0.2f, 0.6f, 4)) scene.points.push_back({0, p});
  const TileCuts cuts = CutsOf(TiledConfig(2), scene.geometry, scene);
  EXPECT_NEAR(cuts.cuts()[0].position, 0.4f, 0.03f);
  scene.points.clear();
  EXPECT_EQ(CutsOf(TiledConfig(2), scene.geometry, scene),
            CutsOf(TiledConfig(2), scene.geometry, scene));
}

}  // namespace
}  // namespace nerf
