#include "engine/methods/ngp/describe/ngp_choice.h"

#include <gtest/gtest.h>

#include "engine/base/method_list/method_descriptions.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/describe/ngp_tensors.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

// 100 pictures of NeRF-Synthetic with this many pixels a side.
SceneFacts Synthetic(double side, double n_samples) {
  return {.has_alpha = true,
          .may_have_hull = true,
          .pixels_along_box = side * 413 / 400,
          .n_pixels = 100 * side * side,
          .n_samples = n_samples,
          .step = 0.01f,
          .cone = 0};
}

TrainConfig Chosen(const SceneFacts& scene, TrainConfig config = {}) {
  ChooseNgpSettings(scene, &config);
  return config;
}

TEST(ChooseNgpSettingsTest, SmallPicturesAndShortBudgetsKeepTheDefaults) {
  for (const SceneFacts& scene :
       {Synthetic(100, 1e9), Synthetic(200, 1e9), Synthetic(400, 40e6), SceneFacts()}) {
    const TrainConfig config = Chosen(scene);
    EXPECT_EQ(Ngp(config).log2_hashmap_size, 17);
    EXPECT_EQ(Ngp(config).finest_resolution, 1024);
    EXPECT_LT(config.step, 0);
    EXPECT_LT(config.cone, 0);
  }
}

TEST(ChooseNgpSettingsTest, FirstStepsOfObjectsAreAtMostAboutFourPixelsLong) {
  const auto scale_at = [](double side, double n_samples) {
    return Chosen(Synthetic(side, n_samples)).initial_step_scale;
  };
  EXPECT_EQ(scale_at(200, 40e6), 3) << "in steps of 0.7 pixels";
  EXPECT_EQ(scale_at(400, 40e6), 3);
  EXPECT_FLOAT_EQ(scale_at(500, 40e6), 2.4f);
  EXPECT_EQ(scale_at(400, 96e6), 6) << "of half the steps";
  EXPECT_EQ(scale_at(800, 40e6), 3) << "likewise";
  EXPECT_EQ(scale_at(800, 384e6), 6);
  EXPECT_EQ(scale_at(100'000, 40e6), 1);
  EXPECT_EQ(Chosen(SceneFacts()).initial_step_scale, 3);
  SceneFacts photographs = Synthetic(800, 40e6);
  photographs.has_alpha = false;
  EXPECT_EQ(Chosen(photographs).initial_step_scale, 3);
  TrainConfig config;
  config.step = 0.01f;
  EXPECT_EQ(Chosen(Synthetic(200, 40e6), config).initial_step_scale, 3);
}

TEST(ChooseNgpSettingsTest, PhotographsOfOneSideGetLongStepsAndACoarseFinestLevel) {
  SceneFacts side = Synthetic(550, 40e6);  // pixels along the box
  side.has_alpha = false;
  side.faces_one_way = true;
  side.n_pixels = 13e6;
  side.cone = 0.0078125f;
  side.near = 1.1f;
  const TrainConfig config = Chosen(side);
  EXPECT_EQ(Ngp(config).finest_resolution, 256);
  EXPECT_EQ(Ngp(config).log2_hashmap_size, 19);
  EXPECT_FLOAT_EQ(config.step, 2 * side.step);
  EXPECT_FLOAT_EQ(config.cone, 2 * side.cone);
  EXPECT_EQ(config.initial_step_scale, 12);
  EXPECT_FLOAT_EQ(config.near, 1.1f);
  side.pixels_along_box = 1100;
  EXPECT_EQ(Ngp(Chosen(side)).finest_resolution, 512);
  side.pixels_along_box = 1e300;
  EXPECT_EQ(Ngp(Chosen(side)).finest_resolution, 2048) << "of a near bound next to 0";
  side.pixels_along_box = 1100;
  TrainConfig own;
  own.step = 0.02f;
  own.near = 0.3f;
  Ngp(own).finest_resolution = 2048;
  const TrainConfig kept = Chosen(side, own);
  EXPECT_FLOAT_EQ(kept.step, 0.02f);
  EXPECT_FLOAT_EQ(kept.near, 0.3f);
  EXPECT_EQ(Ngp(kept).finest_resolution, 2048);
  EXPECT_EQ(kept.initial_step_scale, 3) << "of the user's steps";
}

TEST(ChooseNgpSettingsTest, PhotographsThatLookOneWayAreEncodedInPerspective) {
  const auto chosen = [](const SceneFacts& scene, TrainConfig config = {}) {
    MethodDescriptionOf(config).ChooseSettings(scene, &config);
    return Ngp(config);
  };
  SceneFacts scene = Synthetic(400, 40e6);
  scene.has_alpha = false;
  EXPECT_EQ(chosen(scene).contraction, Contraction::kNone);
  scene.has_frustum = true;
  scene.pixels_along_frustum = 885;
  EXPECT_EQ(chosen(scene).contraction, Contraction::kPerspective);
  EXPECT_EQ(chosen(scene).finest_resolution, 1024) << "cells of about a pixel";
  scene.pixels_along_frustum = 1770;
  EXPECT_EQ(chosen(scene).finest_resolution, 2048);
  scene.pixels_along_frustum = 1e300;
  EXPECT_EQ(chosen(scene).finest_resolution, 2048);
  TrainConfig own;
  Ngp(own).contraction = Contraction::kNone;
  EXPECT_EQ(chosen(scene, own).contraction, Contraction::kNone);
  TrainConfig background;
  Ngp(background).learned_background = 1;
  EXPECT_EQ(chosen(scene, background).contraction, Contraction::kNone);
  TrainConfig asked;
  Ngp(asked).contraction = Contraction::kPerspective;
  const MethodDescription& method = MethodDescriptionOf(asked);
  EXPECT_THAT(method.CheckScene(scene, asked), IsOk());
  EXPECT_THAT(method.CheckScene({}, asked),
              StatusIs(absl::StatusCode::kInvalidArgument, "settings.contraction"));
  TrainConfig tiles;
  tiles.method = "ngp-tiles";
  EXPECT_EQ(chosen(scene, tiles).contraction, Contraction::kAuto) << "tiles honor none";
  scene.has_alpha = true;
  EXPECT_EQ(chosen(scene).contraction, Contraction::kNone) << "objects";
}

TEST(ChooseNgpSettingsTest, ExposuresAreLearnedWhereTheyDiffer) {
  const auto chosen = [](bool differ, TrainConfig config = {}) {
    MethodDescriptionOf(config).ChooseForPictures([&] { return differ; }, &config);
    return Ngp(config).exposure_rate;
  };
  EXPECT_EQ(chosen(false), 0);
  EXPECT_EQ(chosen(true), 0.3f);
  TrainConfig own;
  Ngp(own).exposure_rate = 0;
  EXPECT_EQ(chosen(true, own), 0);
  TrainConfig appearances;
  Ngp(appearances).appearance_rate = 0.1f;
  EXPECT_EQ(chosen(true, appearances), 0);
  TrainConfig ranks_on_cuda;
  ranks_on_cuda.cuda_deterministic = 1;
  EXPECT_EQ(chosen(true, ranks_on_cuda), 0);
  TrainConfig proposals;
  Ngp(proposals).sampler = Sampler::kProposals;
  EXPECT_EQ(ExposureRate(proposals), 0);
  EXPECT_EQ(chosen(true, proposals), kAutoSetting);
  TrainConfig tiles;
  tiles.method = "ngp-tiles";
  EXPECT_EQ(chosen(true, tiles), kAutoSetting) << "tiles honor none";
}

TEST(ChooseNgpSettingsTest, LightSamplesOfPhotographsOfOneSideTrainByLot) {
  const auto chosen = [](const SceneFacts& scene, TrainConfig config = {}) {
    MethodDescriptionOf(config).ChooseSettings(scene, &config);
    return Ngp(config).roulette_weight;
  };
  SceneFacts scene = Synthetic(400, 40e6);
  EXPECT_EQ(chosen(scene), 0);
  scene.has_alpha = false;
  EXPECT_EQ(chosen(scene), 0);
  scene.faces_one_way = true;
  EXPECT_EQ(chosen(scene), 0.1f);
  TrainConfig own;
  Ngp(own).roulette_weight = 0;
  EXPECT_EQ(chosen(scene, own), 0);
  TrainConfig proposals;
  Ngp(proposals).sampler = Sampler::kProposals;
  EXPECT_EQ(chosen(scene, proposals), kAutoSetting);
  TrainConfig tiles;
  tiles.method = "ngp-tiles";
  EXPECT_EQ(chosen(scene, tiles), kAutoSetting);
}

TEST(ChooseNgpSettingsTest, ObjectsHaveAFineGridUnlessTheyAreVerySmall) {
  EXPECT_EQ(Chosen(Synthetic(100, 40e6)).grid_resolution, 128);
  EXPECT_EQ(Chosen(Synthetic(200, 40e6)).grid_resolution, 256);
  SceneFacts without_hull = Synthetic(800, 1e9);
  without_hull.may_have_hull = false;
  EXPECT_EQ(Chosen(without_hull).grid_resolution, 128);
  TrainConfig config;
  Ngp(config).pose_rate = 0.1f;
  EXPECT_EQ(Chosen(Synthetic(800, 1e9), config).grid_resolution, 128) << "the hull needs poses";
  config.grid_resolution = 64;
  EXPECT_EQ(Chosen(Synthetic(800, 1e9), config).grid_resolution, 64);
  TrainConfig tiles;
  tiles.method = "ngp-tiles";
  MethodDescriptionOf(tiles).ChooseSettings(Synthetic(800, 1e9), &tiles);
  EXPECT_EQ(tiles.grid_resolution, 128) << "each tile has a grid";
}

TEST(ChooseNgpSettingsTest, SmallBudgetsAreSpentInSmallStepsWhereTheyMayBe) {
  const auto steps_of = [](double n_samples, int target_samples, bool lowers) {
    SceneFacts scene = Synthetic(200, n_samples);
    scene.lowers_steps = lowers;
    TrainConfig config;
    config.target_samples = target_samples;
    return Chosen(scene, config).target_samples;
  };
  EXPECT_EQ(steps_of(4.096e6, 8192, true), 2000);
  EXPECT_EQ(steps_of(4.096e6, 8192, false), 8192);
  EXPECT_EQ(steps_of(1e5, 8192, true), 1024);
  EXPECT_EQ(steps_of(20e6, 8192, true), 8192);
  EXPECT_EQ(steps_of(20.48e6, 16384, true), 10000);
}

TEST(ChooseNgpSettingsTest, LargerPicturesHaveLargerTablesAndShorterSteps) {
  const TrainConfig full = Chosen(Synthetic(800, 40e6));
  EXPECT_EQ(Ngp(full).log2_hashmap_size, 18) << "19 would take too much of this budget";
  EXPECT_EQ(Ngp(Chosen(Synthetic(800, 191e6))).log2_hashmap_size, 18);
  EXPECT_EQ(Ngp(Chosen(Synthetic(800, 192e6))).log2_hashmap_size, 19);
  EXPECT_EQ(Ngp(full).finest_resolution, 1024);
  EXPECT_FLOAT_EQ(full.step, 0.005f);
  const TrainConfig twice = Chosen(Synthetic(1600, 40e6));
  EXPECT_EQ(Ngp(twice).log2_hashmap_size, 18);
  EXPECT_EQ(Ngp(twice).finest_resolution, 2048);
  EXPECT_FLOAT_EQ(twice.step, 0.0025f);
  TrainConfig most = Chosen(Synthetic(100'000, 40e6));
  most.initial_step_scale = twice.initial_step_scale;
  EXPECT_EQ(most, twice) << "no more doublings";
}

TEST(ChooseNgpSettingsTest, RaysOfPanoramasBeginFartherOutUnlessTheUserSays) {
  SceneFacts scene = Synthetic(200, 1e6);
  EXPECT_LT(Chosen(scene).near, 0) << "the scene's own";
  scene.near = 0.2f;
  EXPECT_EQ(Chosen(scene).near, 0.2f);
  TrainConfig config;
  config.near = 0;
  EXPECT_EQ(Chosen(scene, config).near, 0);
}

TEST(ChooseNgpSettingsTest, RaysGoOnInFaintLightWithManySamplesForEachPixel) {
  EXPECT_EQ(Chosen(Synthetic(200, 63e6)).min_transmittance, 0.03f);
  EXPECT_EQ(Chosen(Synthetic(200, 64e6)).min_transmittance, 0.001f);
  EXPECT_EQ(Chosen(Synthetic(800, 639e6)).min_transmittance, 0.03f);
  EXPECT_EQ(Chosen(Synthetic(800, 640e6)).min_transmittance, 0.001f);
  SceneFacts photographs = Synthetic(200, 1e9);
  photographs.has_alpha = false;
  EXPECT_EQ(Chosen(photographs).min_transmittance, 0.03f);
  TrainConfig config;
  config.min_transmittance = 0.01f;
  EXPECT_EQ(Chosen(Synthetic(200, 96e6), config).min_transmittance, 0.01f);
}

TEST(ChooseNgpSettingsTest, PixelsOfObjectsHaveFourRaysWithManySamplesForEachPixel) {
  const auto chosen = [](const SceneFacts& scene, TrainConfig config = {}) {
    MethodDescriptionOf(config).ChooseSettings(scene, &config);
    return config.rays_per_pixel;
  };
  EXPECT_EQ(chosen(Synthetic(200, 31e6)), 1);
  EXPECT_EQ(chosen(Synthetic(200, 32e6)), 4);
  EXPECT_EQ(chosen(Synthetic(400, 128e6)), 4);
  EXPECT_EQ(chosen(Synthetic(800, 1e9)), 1);
  SceneFacts photographs = Synthetic(200, 1e9);
  photographs.has_alpha = false;
  EXPECT_EQ(chosen(photographs), 1);
  TrainConfig config;
  config.rays_per_pixel = 1;
  EXPECT_EQ(chosen(Synthetic(200, 1e9), config), 1);
  for (const auto& [key, value] : {std::pair{"pose_rate", "0.1"},
                                   {"focal_rate", "0.1"},
                                   {"error_share", "0.5"},
                                   {"depth_weight", "1"},
                                   {"sampler", "proposals"}}) {
    TrainConfig with;
    ASSERT_THAT(SetConfigField(key, value, &with), IsOk());
    MethodDescriptionOf(with).ChooseSettings(Synthetic(200, 1e9), &with);
    EXPECT_EQ(RaysPerPixel(with), 1) << key;
    EXPECT_THAT(ValidateConfig(with), IsOk()) << key;
  }
  for (const char* method : {"ngp-autograd", "ngp-tiles", "dynamic", "mlp", "voxels"}) {
    TrainConfig of_method = FindMethodDescription(method)->Defaults();
    of_method.method = method;
    EXPECT_EQ(chosen(Synthetic(200, 1e9), of_method), kAutoSetting) << method;
  }
}

TEST(ChooseNgpSettingsTest, FourRaysAreRefusedWithSettingsOfOneRay) {
  TrainConfig config;
  ASSERT_THAT(SetConfigField("rays_per_pixel", "4", &config), IsOk());
  EXPECT_THAT(ValidateConfig(config), IsOk());
  for (const char* key : {"pose_rate", "focal_rate", "error_share", "depth_weight"}) {
    TrainConfig with = config;
    ASSERT_THAT(SetConfigField(key, "0.1", &with), IsOk());
    EXPECT_THAT(ValidateConfig(with), StatusIs(absl::StatusCode::kInvalidArgument, key));
    EXPECT_THAT(ValidateConfig(with),
                StatusIs(absl::StatusCode::kInvalidArgument, "rays_per_pixel=4 does not honor it"));
  }
  ASSERT_THAT(SetConfigField("rays_per_pixel", "2", &config), IsOk());
  EXPECT_THAT(ValidateConfig(config),
              StatusIs(absl::StatusCode::kInvalidArgument, "rays_per_pixel"));
  for (const char* value : {"3", "8", "0"}) {
    EXPECT_THAT(SetConfigField("rays_per_pixel", value, &config),
                StatusIs(absl::StatusCode::kInvalidArgument, "rays_per_pixel"));
  }
}

TEST(ChooseNgpSettingsTest, LongBudgetsHaveShorterSteps) {
  EXPECT_FLOAT_EQ(Chosen(Synthetic(400, 95e6)).step, -1);
  EXPECT_EQ(Ngp(Chosen(Synthetic(400, 95e6))).log2_hashmap_size, 18);
  const TrainConfig config = Chosen(Synthetic(400, 96e6));
  EXPECT_EQ(Ngp(config).log2_hashmap_size, 18);
  EXPECT_EQ(Ngp(config).finest_resolution, 1024);
  EXPECT_FLOAT_EQ(config.step, 0.005f);
}

TEST(ChooseNgpSettingsTest, PhotographsNeedMoreSamplesForEachPixel) {
  SceneFacts photographs = Synthetic(800, 192e6);
  photographs.has_alpha = false;
  EXPECT_EQ(Ngp(Chosen(photographs)).log2_hashmap_size, 17);
  EXPECT_FLOAT_EQ(Chosen(photographs).step, -1);
  photographs.n_samples = 768e6;
  EXPECT_EQ(Ngp(Chosen(photographs)).log2_hashmap_size, 19);
  EXPECT_FLOAT_EQ(Chosen(photographs).step, 0.005f);
  photographs.n_samples = 1536e6;
  EXPECT_FLOAT_EQ(Chosen(photographs).step, 0.0025f);
}

TEST(ChooseNgpSettingsTest, ConesFollowWhereTheSceneHasOne) {
  SceneFacts scene = Synthetic(800, 40e6);
  scene.cone = 1.0f / 128;
  EXPECT_FLOAT_EQ(Chosen(scene).cone, 1.0f / 256);
}

TEST(ChooseNgpSettingsTest, WhatTheUserNamesStays) {
  TrainConfig named;
  for (const auto& [key, value] : {std::pair{"log2_hashmap_size", "17"},
                                   {"finest_resolution", "1024"},
                                   {"initial_step_scale", "3"},
                                   {"step", "0.01"},
                                   {"cone", "0"},
                                   {"grid_resolution", "128"},
                                   {"min_transmittance", "0.03"}}) {
    ASSERT_THAT(SetConfigField(key, value, &named), IsOk());
  }
  EXPECT_EQ(Chosen(Synthetic(1600, 1e12), named), named);
}

TEST(ChooseNgpSettingsTest, AutoIsReadAndWritten) {
  TrainConfig config;
  for (const auto& [key, value] : {std::pair{"log2_hashmap_size", "16"},
                                   {"finest_resolution", "64"},
                                   {"initial_step_scale", "16"},
                                   {"grid_resolution", "64"}}) {
    EXPECT_EQ(ConfigSettings(config).at(key), "auto");
    ASSERT_THAT(SetConfigField(key, value, &config), IsOk());
    EXPECT_EQ(ConfigSettings(config).at(key), value);
    ASSERT_THAT(SetConfigField(key, "auto", &config), IsOk());
    EXPECT_THAT(SetConfigField(key, "-1", &config),
                StatusIs(absl::StatusCode::kInvalidArgument, key));
  }
  EXPECT_EQ(config, TrainConfig());
  EXPECT_THAT(SetConfigField("grid_decay", "auto", &config),
              StatusIs(absl::StatusCode::kInvalidArgument, "grid_decay"));
}

TEST(TakeNgpFromStartTest, OnlyWhatIsOpenIsTaken) {
  TrainConfig start, config;
  Ngp(start).log2_hashmap_size = 19;
  Ngp(start).finest_resolution = 2048;
  start.grid_resolution = 64;
  TakeNgpFromStart(start, &config);
  EXPECT_EQ(config.grid_resolution, 64);
  EXPECT_EQ(Ngp(config).log2_hashmap_size, 19);
  EXPECT_EQ(Ngp(config).finest_resolution, 2048);
  TakeNgpFromStart(TrainConfig(), &config);
  EXPECT_EQ(Ngp(config).log2_hashmap_size, 19);
}

TEST(CheckInitFitsTest, TablesOfOtherSizesFitAndOtherFeaturesDoNot) {
  TrainConfig small, large, odd;
  Ngp(small).log2_hashmap_size = 17;
  Ngp(large).log2_hashmap_size = 19;
  Ngp(odd).log2_hashmap_size = 17;
  Ngp(odd).n_features_per_level = 2;
  EXPECT_THAT(CheckInitFits(large, FieldTensorShapes(small)), IsOk());
  EXPECT_THAT(CheckInitFits(small, FieldTensorShapes(large)), IsOk());
  EXPECT_THAT(CheckInitFits(large, FieldTensorShapes(odd)),
              StatusIs(absl::StatusCode::kInvalidArgument, "field.hash_table"));
}

TEST(TakeNgpFromTensorsTest, AServerFitsTheTableOfTheStart) {
  TrainConfig start;
  Ngp(start).log2_hashmap_size = 19;
  EXPECT_THAT(CheckInitFits(TrainConfig(), FieldTensorShapes(start)), IsOk());
  TrainConfig named;
  Ngp(named).log2_hashmap_size = 17;
  EXPECT_THAT(CheckInitFits(named, FieldTensorShapes(start)), IsOk());
  std::vector<TensorShape> odd = FieldTensorShapes(start);
  for (const std::vector<uint32_t>& shape :
       {std::vector<uint32_t>{8, 3, 4}, {8, 0, 4}, {8, 1u << 23, 4}, {8, 1u << 31, 4}, {8}}) {
    odd[0].shape = shape;
    for (const TrainConfig& config : {TrainConfig(), named}) {
      EXPECT_THAT(CheckInitFits(config, odd),
                  StatusIs(absl::StatusCode::kInvalidArgument, "field.hash_table"));
    }
  }
}

}  // namespace
}  // namespace nerf
