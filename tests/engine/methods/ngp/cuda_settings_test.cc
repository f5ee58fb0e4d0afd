// Each setting of method ngp in training steps on a CUDA device, or under the host emulation,
// beside the CPU's.

#include <algorithm>
#include <cmath>

#include "engine/train/batch/pixel_sampler.h"
#include "fmt/format.h"
#include "tests/engine/methods/ngp/cuda_step_expectations.h"
#include "tests/testing/step_expectations.h"

namespace nerf {
namespace {

class NgpCudaSettingsTest : public CudaStepTest {};
// Every kernel has met both orders of threads in its own test.
INSTANTIATE_TEST_SUITE_P(Cuda, NgpCudaSettingsTest, testing::Values(CudaPlaces().front()),
                         CudaPlaceName);

TEST_P(NgpCudaSettingsTest, StepsInOpenScenesAreTheCpus) {
  struct Case {
    Contraction contraction;
    int learned_background, n_levels, deterministic;
  };
  for (const Case& c : {Case{Contraction::kLinf, 1, 3, 0}, Case{Contraction::kL2, 0, 2, 0},
                        Case{Contraction::kPerspective, 1, 2, 0}, Case{Contraction::kL2, 1, 2, 1},
                        Case{Contraction::kNone, 1, 1, 1}, Case{Contraction::kNone, 1, 1, 0}}) {
    SCOPED_TRACE(fmt::format("contraction {}", static_cast<int>(c.contraction)));
    TrainConfig config = Fp32Config();
    Ngp(config).contraction = c.contraction;
    Ngp(config).learned_background = c.learned_background;
    config.cuda_deterministic = c.deterministic;
    if (c.deterministic != 0) {
      ExpectStepsLikeTheCpus(config, TinyGeometry(c.n_levels), 1, kFp32Loss, kFixedPointState);
    } else {  // past an update of the grid
      ExpectStepsLikeTheCpus(config, TinyGeometry(c.n_levels), 5, kFp32Loss, kFp32State);
    }
    config.cuda_fp32 = 0;
    ExpectStepsLikeTheCpus(config, TinyGeometry(c.n_levels), 1, kHalfLoss, kHalfState);
  }
}

// Of many rays through a nearly empty grid, whose samples all fit: those behind the boxes do not.
TEST_P(NgpCudaSettingsTest, HorizonsThatDoNotFitAreFoundRoomFor) {
  TrainConfig config = Fp32Config();
  Ngp(config).learned_background = 1;
  config.target_samples = 1024;  // room for 2^12 samples
  config.initial_rays = 1;
  ThreadPool pool(1);
  const auto cpu = NewNgpCpuStep(config, TinyGeometry(), &pool);
  const auto device = NewNgpCudaStep(config, TinyGeometry());
  TensorFile state = LivelyState(*cpu);
  std::vector<uint8_t>& bits = state.tensors.at("occupancy.bits").bytes;
  std::fill(bits.begin(), bits.end(), 0);
  bits[100] = 255;
  ASSERT_THAT(cpu->Load(state), IsOk());
  ASSERT_THAT(device->Load(state), IsOk());
  const RayBatch batch = TinyBatch(5000, 1);
  const StepResult expected = cpu->RunRays(batch), found = device->RunRays(batch);
  ASSERT_GT(expected.n_trained, 1 << 12) << "more than there was room for";
  EXPECT_NEAR(found.n_trained, expected.n_trained, 2);
  EXPECT_EQ(found.n_marched, expected.n_marched);
  EXPECT_NEAR(found.loss, expected.loss, kFp32Loss * expected.loss);
}

TEST_P(NgpCudaSettingsTest, MasksWeighRaysAsOnTheCpu) {
  TrainConfig config = Fp32Config();
  config.alpha_is_mask = 1;
  const Learned masked{.batch_of = [](RayBatch batch) {
    batch.weights = RandomFloats(batch.n_rays, 0, 1, 55);
    batch.weights[0] = 0;
    return batch;
  }};
  ForEachPrecision(config, [&](uint32_t n_steps, double loss, double state) {
    ExpectStepsLikeTheCpus(config, TinyGeometry(), n_steps, loss, state, masked);
  });
  // Without masks in the pictures.
  ExpectStepsLikeTheCpus(config, TinyGeometry(), 1, kHalfLoss, kHalfState);
}

TEST_P(NgpCudaSettingsTest, ExposuresAndAppearancesAreLearnedAsOnTheCpu) {
  TrainConfig config = Fp32Config();
  Ngp(config).exposure_rate = 0.3f;
  const Learned exposures{.tensors = {"view.log_gains"}};
  ForEachPrecision(config, [&](uint32_t n_steps, double loss, double state) {
    ExpectStepsLikeTheCpus(config, TinyGeometry(), n_steps, loss, state, exposures);
  });
  Ngp(config).exposure_rate = 0;
  Ngp(config).appearance_rate = 0.5f;
  const Learned appearances{.tensors = {"view.appearances", "field.appearance_layer"}};
  ForEachPrecision(config, [&](uint32_t n_steps, double loss, double state) {
    ExpectStepsLikeTheCpus(config, TinyGeometry(), n_steps, loss, state, appearances);
  });
}

TEST_P(NgpCudaSettingsTest, WhatCapturesAskForIsTrainedTogether) {
  TrainConfig config = Fp32Config();
  config.alpha_is_mask = 1;
  Ngp(config).exposure_rate = 0.3f;
  Ngp(config).appearance_rate = 0.5f;
  Ngp(config).contraction = Contraction::kLinf;
  Ngp(config).learned_background = 1;
  const Learned all{.tensors = {"view.log_gains", "view.appearances", "field.appearance_layer"},
                    .batch_of = [](const RayBatch& plain) {
                      RayBatch batch = OfViews(plain);
                      batch.weights = RandomFloats(batch.n_rays, 0, 1, 55);
                      return batch;
                    }};
  // Past an update of the average. Rounding grows: 4e-6 after a step, 1e-4 after all.
  ExpectStepsLikeTheCpus(config, TinyGeometry(2), 17, kFp32Loss, 3 * kFp32State, all);
}

TEST_P(NgpCudaSettingsTest, ViewsGoBackAndAreLoadedLikeTheField) {
  TrainConfig config = TinyConfig();
  config.cuda_deterministic = 1;
  Ngp(config).exposure_rate = 0.3f;
  Ngp(config).appearance_rate = 0.5f;
  const std::vector<View> views = NoiseViewsOfEachKind();
  ThreadPool pool(1);
  const auto step = NewNgpCudaStep(config, TinyGeometry(), nullptr, views, &pool);
  const auto batch_of = [](uint32_t i) { return OfViews(TinyBatch(6, i)); };
  for (uint32_t i = 0; i < 2; ++i) step->RunRays(batch_of(i));
  step->Remember();
  const TensorFile before = Saved(*step);
  step->RunRays(batch_of(2));
  EXPECT_FALSE(SameContents(Saved(*step), before));
  ASSERT_THAT(step->Restore(), IsOk());
  EXPECT_TRUE(SameContents(Saved(*step), before));
  const auto resumed = NewNgpCudaStep(config, TinyGeometry(), nullptr, views, &pool);
  ASSERT_THAT(resumed->Load(before), IsOk());
  ExpectSameSteps(step.get(), resumed.get(), 2, 6, batch_of);
  for (const char* name : {"view.log_gains", "adam.first.field.appearance_layer"}) {
    TensorFile broken = before;
    broken.tensors.erase(name);
    const TensorFile held = Saved(*step);
    EXPECT_THAT(step->Load(broken), StatusIs(absl::StatusCode::kInvalidArgument, name));
    EXPECT_TRUE(SameContents(Saved(*step), held));
  }
  TensorFile model;
  step->SaveModel(&model);
  EXPECT_TRUE(model.tensors.contains("view.appearances"));
  EXPECT_FALSE(model.tensors.contains("view.log_gains"));
  ASSERT_THAT(step->Load(WithNan(before, "field.appearance_layer")), IsOk());
  EXPECT_TRUE(std::isnan(step->RunRays(batch_of(2)).loss));
}

TEST_P(NgpCudaSettingsTest, GradientsNearCamerasShrinkAsOnTheCpu) {
  TrainConfig config = Fp32Config();
  Ngp(config).near_gradients = 2.5f;  // the middle of the box
  Ngp(config).learned_background = 1;
  ForEachPrecision(config, [&](uint32_t n_steps, double loss, double state) {
    ExpectStepsLikeTheCpus(config, TinyGeometry(), n_steps, loss, state);
  });
}

// Four rays for each pixel, one in step 1.
TEST_P(NgpCudaSettingsTest, PixelsShowTheMeanOfFourRaysAsOnTheCpu) {
  TrainConfig config = Fp32Config();
  config.rays_per_pixel = 4;
  const Learned in_fours{.batch_of = [](const RayBatch& plain) {
    RayBatch batch = OfViews(TinyBatch(4 * (2 + static_cast<int>(plain.step)), plain.step));
    return plain.step == 1 ? batch : InFours(std::move(batch));
  }};
  ForEachPrecision(config, [&](uint32_t n_steps, double loss, double state) {
    ExpectStepsLikeTheCpus(config, TinyGeometry(), n_steps, loss, state, in_fours);
  });
  config.alpha_is_mask = 1;
  Ngp(config).exposure_rate = 0.3f;
  Ngp(config).learned_background = 1;
  const Learned of_captures{.tensors = {"view.log_gains"}, .batch_of = [](const RayBatch& plain) {
                              RayBatch batch = OfViews(TinyBatch(40, plain.step));
                              batch.weights = RandomFloats(40, 0, 1, 55);
                              return InFours(std::move(batch));
                            }};
  ForEachPrecision(config, [&](uint32_t n_steps, double loss, double state) {
    ExpectStepsLikeTheCpus(config, TinyGeometry(), n_steps, loss, state, of_captures);
  });
}

// Rays of known depth, which OfViews gives, in space that is mapped and has a background.
TEST_P(NgpCudaSettingsTest, DepthsAreLearnedAsOnTheCpu) {
  TrainConfig config = Fp32Config();
  Ngp(config).depth_weight = 0.3f;
  Ngp(config).learned_background = 1;
  ForEachPrecision(config, [&](uint32_t n_steps, double loss, double state) {
    ExpectStepsLikeTheCpus(config, TinyGeometry(), n_steps, loss, state);
  });
}

TEST_P(NgpCudaSettingsTest, RaysToPointsAreAddedAsOnTheCpu) {
  TrainConfig config = Fp32Config();
  Ngp(config).depth_weight = 0.3f;
  const std::vector<View> views = NoiseViewsOfEachKind();
  const std::vector<SeenPoint> points = {{0, {0, 0, 0}}, {1, {0.2f, 0.1f, 0}}, {2, {0, 0.3f, 0}}};
  ThreadPool pool(1);
  const auto cpu = NewNgpCpuStep(config, TinyGeometry(), &pool, views, nullptr, {points, {}});
  const auto device =
      NewNgpCudaStep(config, TinyGeometry(), nullptr, views, &pool, nullptr, {points, {}});
  ASSERT_THAT(cpu->Load(LivelyState(*cpu)), IsOk());
  ASSERT_THAT(device->Load(LivelyState(*cpu)), IsOk());
  for (uint32_t i = 0; i < 2; ++i) {
    const StepResult expected = cpu->RunRays(TinyBatch(40, i));
    const StepResult found = device->RunRays(TinyBatch(40, i));
    EXPECT_EQ(found.n_rays, 40);
    EXPECT_NEAR(found.loss, expected.loss, kFp32Loss * expected.loss);
    EXPECT_NEAR(found.n_trained, expected.n_trained, 1e-3 * expected.n_trained + 2);
  }
  for (const std::string& name : FieldTensorNames())
    EXPECT_LT(Difference(Saved(*device), Saved(*cpu), name), kFp32State) << name;
}

TEST_P(NgpCudaSettingsTest, LevelsComeInOneAfterAnotherAsOnTheCpu) {
  TrainConfig config = Fp32Config();
  Ngp(config).coarse_share = 0.5f;
  // Two levels of eight at first, all from the fifth step on; the grid is updated before it.
  const Learned growing{.batch_of = [](RayBatch batch) {
    batch.fraction = 0.13 * batch.step;
    return batch;
  }};
  ExpectStepsLikeTheCpus(config, TinyGeometry(), 6, kFp32Loss, kFp32State, growing);
  config.cuda_fp32 = 0;
  ExpectStepsLikeTheCpus(config, TinyGeometry(), 1, kHalfLoss, kHalfState, growing);
  // Levels that take no part stay as they are, also behind steps in larger arrays.
  config.target_samples = 256;
  config.initial_rays = 1;
  const auto step = NewNgpCudaStep(config, TinyGeometry());
  const TensorFile before = LivelyState(*step);
  ASSERT_THAT(step->Load(before), IsOk());
  step->RunRays(TinyBatch(150));
  const std::vector<float> was = ToFloats(before.tensors.at("field.hash_table"));
  const std::vector<float> is = ToFloats(Saved(*step).tensors.at("field.hash_table"));
  const auto active = static_cast<std::ptrdiff_t>(was.size() / 4);
  EXPECT_FALSE(std::equal(was.begin(), was.begin() + active, is.begin()));
  EXPECT_TRUE(std::equal(was.begin() + active, was.end(), is.begin() + active));
}

TEST_P(NgpCudaSettingsTest, FrozenPartsStayAsTheyAreAndTheOthersTrainAsOnTheCpu) {
  for (const Frozen frozen : {Frozen::kMlp, Frozen::kTable}) {
    TrainConfig config = Fp32Config();
    Ngp(config).frozen = frozen;
    ForEachPrecision(config, [&](uint32_t n_steps, double loss, double state) {
      ExpectStepsLikeTheCpus(config, TinyGeometry(), n_steps, loss, state);
    });
    const auto step = NewNgpCudaStep(config, TinyGeometry());
    const TensorFile before = LivelyState(*step);
    ASSERT_THAT(step->Load(before), IsOk());
    step->RunRays(TinyBatch(10));
    const TensorFile after = Saved(*step);
    const bool table_moved = Difference(after, before, "field.hash_table") > 0;
    const bool layers_moved = Difference(after, before, "field.color_mlp.1") > 0;
    EXPECT_EQ(table_moved, frozen != Frozen::kTable);
    EXPECT_EQ(layers_moved, frozen != Frozen::kMlp);
  }
}

// Corrected poses and lenses, pixels by their errors, reduced pictures.
TEST_P(NgpCudaSettingsTest, RaysThatOnlyTheHostMakesAreTrainedOnAsOnTheCpu) {
  for (const Contraction contraction : {Contraction::kNone, Contraction::kL2}) {
    TrainConfig config = Fp32Config();
    config.warmup_steps = 0;
    Ngp(config).mlp_l2 = 1e-6f;  // else Adam takes the rounding of gradients for gradients
    Ngp(config).pose_rate = 0.1f;
    Ngp(config).focal_rate = 0.1f;
    Ngp(config).error_share = 0.5f;
    Ngp(config).coarse_pictures = 0.5f;
    Ngp(config).contraction = contraction;
    Ngp(config).learned_background = contraction != Contraction::kNone;
    Ngp(config).n_features_per_level = contraction == Contraction::kNone ? 4 : 2;
    ASSERT_TRUE(NeedsRaysOfTheHost(config));
    const SceneGeometry geometry = TinyGeometry(contraction == Contraction::kNone ? 1 : 2);
    const std::vector<View> views = NoiseViewsOfEachKind();
    ThreadPool pool(1);
    const auto cpu = NewNgpCpuStep(config, geometry, &pool, views);
    const auto device = NewNgpCudaStep(config, geometry, nullptr, views, &pool);
    EXPECT_FALSE(device->DrawsPixels());
    const TensorFile state = LivelyState(*cpu);
    ASSERT_THAT(cpu->Load(state), IsOk());
    ASSERT_THAT(device->Load(state), IsOk());
    const PixelSampler sampler(views, Background::kBlack, config.seed);
    for (uint32_t step = 0; step < 5; ++step) {
      PixelBatch batch;
      sampler.Fill(step, 24, &pool, &batch);
      if (step < 2) {  // of reduced pictures
        batch.picture_level = 1;
        for (Pixel& pixel : batch.pixels) {
          pixel.x /= 3;
          pixel.y /= 3;
        }
      }
      const StepResult expected = cpu->Run(batch), found = device->Run(batch);
      ASSERT_NEAR(found.loss, expected.loss, kFp32Loss * expected.loss) << step;
    }
    const TensorFile after = Saved(*device), after_cpu = Saved(*cpu);
    EXPECT_EQ(after.tensors.size(), after_cpu.tensors.size());
    for (const std::string name : {"view.poses", "view.log_focal_scales"}) {
      EXPECT_LT(Difference(after, after_cpu, name), kFixedPointState) << name;
      EXPECT_LT(Difference(after, after_cpu, "adam.first." + name), kFixedPointState) << name;
      EXPECT_GT(Difference(after, state, name), 0) << name << " has not moved";
    }
    EXPECT_LT(Difference(after, after_cpu, "view.errors"), kFp32State);
    EXPECT_GT(Difference(after, state, "view.errors"), 0);
    ASSERT_NE(device->Errors(), nullptr);
    EXPECT_EQ(device->FoundLenses().size(), cpu->FoundLenses().size());
    // Loading brings the cameras along.
    const auto resumed = NewNgpCudaStep(config, geometry, nullptr, views, &pool);
    ASSERT_THAT(resumed->Load(after), IsOk());
    PixelBatch batch;
    sampler.Fill(5, 24, &pool, &batch);
    EXPECT_NEAR(resumed->Run(batch).loss, device->Run(batch).loss, 1e-6);
  }
}

}  // namespace
}  // namespace nerf
