#include <cmath>

#include "engine/methods/ngp/chunk.h"
#include "engine/methods/ngp/depth_rays.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/parameters.h"
#include "engine/methods/ngp/state.h"
#include "engine/methods/ngp/steps.h"
#include "engine/methods/ngp/view_parameters/view_appearances.h"
#include "engine/methods/ngp/view_parameters/view_exposures.h"
#include "engine/methods/ngp/view_parameters/view_poses.h"
#include "engine/views/render/renderer.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/step_expectations.h"
#include "tests/testing/tiny_training.h"
#include "tests/testing/training_loss.h"

namespace nerf {
namespace {

// A config whose loss is smooth: nothing is cut off, rounded or added.
TrainConfig SmoothConfig(Loss loss, int n_features = 4) {
  TrainConfig config = TinyConfig();
  config.loss = loss;
  Ngp(config).n_features_per_level = n_features;
  config.min_transmittance = 0;
  Ngp(config).half_table = 0;
  Ngp(config).mlp_l2 = 0;
  return config;
}

struct Case {
  Loss loss;
  int n_levels;
  int n_features = 4;  // of the encoding's levels
  Contraction contraction = Contraction::kNone;
  bool learned_background = false;
  float exposure_rate = 0;
  float depth_weight = 0;
  float appearance_rate = 0;

  TrainConfig Config() const {
    TrainConfig config = SmoothConfig(loss, n_features);
    Ngp(config).contraction = contraction;
    Ngp(config).learned_background = learned_background;
    Ngp(config).exposure_rate = exposure_rate;
    Ngp(config).depth_weight = depth_weight;
    Ngp(config).appearance_rate = appearance_rate;
    return config;
  }
};

const std::vector<View>& TinyViews() {
  static const std::vector<View> views(3);
  return views;
}

// The products of the views' vectors and the layer, in double precision, rounded at the end.
std::vector<float> ViewTerms(const TensorFile& state) {
  const std::vector<float> vectors = ToFloats(state.tensors.at("view.appearances"));
  const std::vector<float> layer = ToFloats(state.tensors.at("field.appearance_layer"));
  std::vector<float> terms;
  for (size_t view = 0; view < vectors.size() / 16; ++view) {
    for (size_t j = 0; j < 64; ++j) {
      double sum = 0;
      for (size_t i = 0; i < 16; ++i) sum += double{vectors[16 * view + i]} * layer[64 * i + j];
      terms.push_back(static_cast<float>(sum));
    }
  }
  return terms;
}

class FusedGradientTest : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Losses, FusedGradientTest,
    testing::Values(Case{Loss::kHuber, 1}, Case{Loss::kMse, 1}, Case{Loss::kMse, 3},
                    Case{Loss::kHuber, 1, 2}, Case{Loss::kMse, 1, 4, Contraction::kNone, true},
                    Case{Loss::kMse, 3, 4, Contraction::kLinf, true},
                    Case{Loss::kMse, 3, 4, Contraction::kL2, false},
                    Case{Loss::kMse, 2, 4, Contraction::kL2, true},
                    Case{Loss::kMse, 1, 4, Contraction::kNone, false, 1},
                    Case{Loss::kHuber, 2, 4, Contraction::kLinf, true, 1},
                    Case{Loss::kMse, 1, 4, Contraction::kNone, false, 0, 0.3f},
                    Case{Loss::kMse, 2, 4, Contraction::kL2, true, 0, 0.3f},
                    Case{Loss::kMse, 1, 4, Contraction::kNone, false, 0, 0, 1},
                    Case{Loss::kHuber, 2, 2, Contraction::kLinf, true, 1, 0.3f, 1},
                    Case{Loss::kMse, 2, 4, Contraction::kPerspective},
                    Case{Loss::kMse, 1, 4, Contraction::kPerspective, true}));

// Of one step of all of a batch's rays.
void ExpectLossOfTheReference(const TrainConfig& config, const SceneGeometry& geometry,
                              const RayBatch& batch) {
  ThreadPool pool(2);
  const auto step = NewNgpCpuStep(config, geometry, &pool, TinyViews());
  const TensorFile state = LivelyViewState(*step);
  ASSERT_THAT(step->Load(state), IsOk());
  std::vector<float> log_gains;
  if (Ngp(config).exposure_rate > 0) log_gains = ToFloats(state.tensors.at("view.log_gains"));
  std::vector<float> view_terms;
  if (Ngp(config).appearance_rate > 0) view_terms = ViewTerms(state);
  NgpParameters parameters(
      config, NgpHashGridShape({.log2_hashmap_size = 12,
                                .n_features_per_level = Ngp(config).n_features_per_level,
                                .n_doublings = EncodingDoublings(config, geometry.n_levels)}));
  ASSERT_THAT(parameters.Load(state), IsOk());
  const Aabb outer = geometry.box.Scaled(static_cast<float>(1 << (geometry.n_levels - 1)));
  const NgpNetwork network{.shape = parameters.shape(),
                           .box = outer,
                           .table = parameters.table(),
                           .weights = parameters.weights(),
                           .density_shift = std::log(2.0f),
                           .contraction = ContractionOf(config),
                           .inner_box = geometry.box,
                           .frustum = geometry.frustum,
                           .learns_background = Ngp(config).learned_background != 0};
  const StepResult expected = reference::TrainingLoss(
      config, network, FullOccupancyGrid(geometry.box, geometry.n_levels, config.grid_resolution),
      {geometry.step, geometry.cone}, batch, log_gains, view_terms);
  const StepResult result = step->RunRays(batch);
  EXPECT_EQ(result.n_rays, batch.n_rays);
  EXPECT_EQ(result.n_marched, expected.n_marched);
  EXPECT_EQ(result.n_trained, expected.n_marched);
  // A float coordinate is off by 1e-4 of one of the finest cells, whose corners differ by about 1.
  EXPECT_NEAR(result.loss, expected.loss, 3e-4 * expected.loss);
  EXPECT_NEAR(result.squared_error, expected.squared_error, 3e-4 * expected.squared_error);
}

TEST_P(FusedGradientTest, LossAgreesWithTheReference) {
  const RayBatch batch = OfViews(TinyBatch(23, 1));
  ASSERT_NE(batch.step_scale, 1);
  ExpectLossOfTheReference(GetParam().Config(), TinyGeometry(GetParam().n_levels), batch);
}

// As later steps are: chunks of 64 rays, more of them than march ahead together, with samples
// beyond those that do.
RayBatch BatchOfSeveralGroups(int n_rays, uint32_t step) {
  RayBatch batch = TinyBatch(n_rays, step);
  batch.target_samples = 1024;
  return batch;
}

TEST(NgpCpuStepTest, LossOfSeveralGroupsOfRaysAgreesWithTheReference) {
  ExpectLossOfTheReference(SmoothConfig(Loss::kHuber), TinyGeometry(),
                           BatchOfSeveralGroups(kRaysInFlight + 70, 1));
}

TEST_P(FusedGradientTest, GradientsAgreeWithCentralDifferences) {
  ThreadPool pool(2);
  const TrainConfig config = GetParam().Config();
  const auto step = NewNgpCpuStep(config, TinyGeometry(GetParam().n_levels), &pool, TinyViews());
  const TensorFile state = LivelyViewState(*step);
  const RayBatch batch = OfViews(TinyBatch(64, 0, /*learning_rate=*/0));
  ASSERT_THAT(step->Load(state), IsOk());
  step->RunRays(batch);
  const TensorFile after = Saved(*step);
  std::vector<std::string> names = FieldTensorNames();
  if (GetParam().exposure_rate > 0) names.emplace_back("view.log_gains");
  if (GetParam().appearance_rate > 0)
    names.insert(names.end(), {"view.appearances", "field.appearance_layer"});
  for (const std::string& name : names) {
    // From zero, first moments become (1 - beta1) of the gradient of the scaled loss.
    std::vector<float> gradient = ToFloats(after.tensors.at("adam.first." + name));
    double squared = 0;
    for (float& g : gradient) {
      g /= (1 - config.beta1) * config.loss_scale;
      squared += static_cast<double>(g) * g;
    }
    const double norm = std::sqrt(squared);
    ASSERT_GT(norm, 1e-5) << name;
    // Along the gradient the loss changes fastest, so rounding matters least; the slope is |g|.
    const double distance = 3e-5 / norm;
    const auto loss_at = [&](double sign) {
      TensorFile moved = state;
      Tensor& tensor = moved.tensors.at(name);
      std::vector<float> values = ToFloats(tensor);
      for (size_t i = 0; i < values.size(); ++i)
        values[i] += static_cast<float>(sign * distance * gradient[i] / norm);
      tensor = TensorFromFloats(values.data(), tensor.shape, DType::kF32);
      EXPECT_THAT(step->Load(moved), IsOk());
      return step->RunRays(batch).loss;
    };
    const double slope = (loss_at(1) - loss_at(-1)) / (2 * distance);
    // The loss moves by 6e-5 and is rounded to 1e-8; curvature and the kinks of ReLU take the rest.
    EXPECT_NEAR(slope, norm, 0.01 * norm) << name;
  }
}

TEST(NgpCpuStepTest, ATableInHalfPrecisionIsReadAndItsMastersAreTrained) {
  ThreadPool pool(2);
  TrainConfig config = TinyConfig();
  ASSERT_EQ(Ngp(config).half_table, 1);
  const auto halves = NewNgpCpuStep(config, TinyGeometry(), &pool);
  Ngp(config).half_table = 0;
  const auto floats = NewNgpCpuStep(config, TinyGeometry(), &pool);
  const TensorFile state = LivelyState(*floats);
  TensorFile rounded = state;
  Tensor& table = rounded.tensors.at(kHashTableName);
  std::vector<float> values = ToFloats(table);
  for (float& value : values) value = RoundToHalf(value);
  table = TensorFromFloats(values.data(), table.shape, DType::kF32);
  ASSERT_THAT(halves->Load(state), IsOk());
  ASSERT_THAT(floats->Load(rounded), IsOk());
  const RayBatch batch = TinyBatch(40);
  EXPECT_EQ(halves->RunRays(batch).loss, floats->RunRays(batch).loss);
  // Equal gradients move both tables alike: one from its masters, the other from rounded ones.
  const std::vector<float> before = ToFloats(state.tensors.at(kHashTableName));
  const std::vector<float> masters = ToFloats(Saved(*halves).tensors.at(kHashTableName));
  const std::vector<float> moved = ToFloats(Saved(*floats).tensors.at(kHashTableName));
  size_t n_moved = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    ASSERT_NEAR(masters[i] - before[i], moved[i] - values[i], 1e-6) << i;
    n_moved += masters[i] != before[i];
  }
  EXPECT_GT(n_moved, 1000u);
}

TEST(NgpCpuStepTest, LevelsThatAreNotActiveAreNotTrained) {
  ThreadPool pool(2);
  TrainConfig config = TinyConfig();
  Ngp(config).coarse_share = 0.6f;
  const auto step = NewNgpCpuStep(config, TinyGeometry(), &pool);
  const TensorFile state = LivelyState(*step);
  ASSERT_THAT(step->Load(state), IsOk());
  RayBatch batch = TinyBatch(40);
  batch.fraction = 0.11;
  ASSERT_EQ(ActiveLevels(config, batch.fraction), 3);
  step->RunRays(batch);
  const std::vector<float> before = ToFloats(state.tensors.at(kHashTableName));
  const std::vector<float> after = ToFloats(Saved(*step).tensors.at(kHashTableName));
  const size_t level_size = before.size() / 8;
  for (int level = 0; level < 8; ++level) {
    const auto begin = before.begin() + static_cast<ptrdiff_t>(level_size) * level;
    const bool same = std::equal(begin, begin + static_cast<ptrdiff_t>(level_size),
                                 after.begin() + static_cast<ptrdiff_t>(level_size) * level);
    EXPECT_EQ(same, level >= 3) << level;
  }
}

// Every feature that is off by default.
TrainConfig CaptureConfig() {
  TrainConfig config = TinyConfig();
  Ngp(config).contraction = Contraction::kLinf;
  Ngp(config).learned_background = true;
  Ngp(config).exposure_rate = 0.3f;
  Ngp(config).appearance_rate = 0.5f;
  Ngp(config).near_gradients = 1;
  Ngp(config).depth_weight = 0.1f;
  Ngp(config).pose_rate = 0.1f;
  Ngp(config).focal_rate = 0.1f;
  return config;
}

class NgpBytesTest : public testing::TestWithParam<bool> {
 protected:
  TrainConfig Config() const { return GetParam() ? CaptureConfig() : TinyConfig(); }
};
INSTANTIATE_TEST_SUITE_P(Captures, NgpBytesTest, testing::Bool());

TEST_P(NgpBytesTest, SameBytesForAnyNumberOfThreads) {
  const auto run = [this](int n_threads) {
    ThreadPool pool(n_threads);
    const auto step = NewNgpCpuStep(Config(), TinyGeometry(2), &pool, TinyViews());
    EXPECT_THAT(step->Load(LivelyState(*step)), IsOk());
    for (uint32_t i = 0; i < 17; ++i) step->RunRays(OfViews(TinyBatch(50 + i, i)));
    for (uint32_t i = 17; i < 19; ++i)
      step->RunRays(OfViews(BatchOfSeveralGroups(2 * kRaysInFlight + 70, i)));
    return Saved(*step);
  };
  const TensorFile one = run(1);
  EXPECT_TRUE(SameContents(run(2), one));
  EXPECT_TRUE(SameContents(run(5), one));
}

TEST(NgpCpuStepTest, ANanInAnyTensorShowsInTheLossOfTheStep) {
  ThreadPool pool(2);
  const auto step = NewNgpCpuStep(TinyConfig(), TinyGeometry(), &pool);
  ExpectNansToShow(step.get(), TinyBatch(40));
}

TEST_P(NgpBytesTest, LoadingASavedStateContinuesBitForBit) {
  ThreadPool pool(2);
  const auto whole = NewNgpCpuStep(Config(), TinyGeometry(), &pool, TinyViews());
  for (uint32_t i = 0; i < 6; ++i) whole->RunRays(OfViews(TinyBatch(40, i)));
  const auto resumed = NewNgpCpuStep(Config(), TinyGeometry(), &pool, TinyViews());
  ASSERT_THAT(resumed->Load(Saved(*whole)), IsOk());
  // Past the update of the grid before step 8 and of the moving average after step 16.
  ExpectSameSteps(whole.get(), resumed.get(), 6, 18,
                  [](uint32_t i) { return OfViews(TinyBatch(40, i)); });
}

TEST(NgpCpuStepTest, LossFallsOnABatchThatIsRepeated) {
  ThreadPool pool(2);
  const auto step = NewNgpCpuStep(TinyConfig(), TinyGeometry(), &pool);
  EXPECT_LT(LossShareAfter(60, TinyBatch(40), step.get()), 0.1);
}

TEST(NgpCpuStepTest, SamplesBehindTheTransmittanceLimitAreNotTrained) {
  ThreadPool pool(2);
  TrainConfig config = TinyConfig();
  const auto trained_of_marched = [&] {
    const auto step = NewNgpCpuStep(config, TinyGeometry(), &pool);
    TensorFile state = LivelyState(*step);
    Tensor& layer = state.tensors.at("field.density_mlp.1");
    std::vector<float> values = ToFloats(layer);
    for (float& value : values) value *= 30;  // exponents of some tens: walls and air
    layer = TensorFromFloats(values.data(), layer.shape, DType::kF32);
    EXPECT_THAT(step->Load(state), IsOk());
    const StepResult result = step->RunRays(TinyBatch(64));
    return static_cast<double>(result.n_trained) / result.n_marched;
  };
  config.min_transmittance = 0;
  EXPECT_EQ(trained_of_marched(), 1);
  config.min_transmittance = 1e-4f;
  EXPECT_LT(trained_of_marched(), 0.9);
}

TEST(NgpCpuStepTest, RouletteTrainsFewerSamplesOfTheSameRaysFrom30PercentOn) {
  ThreadPool pool(2);
  TrainConfig config = TinyConfig();
  config.min_transmittance = 0;
  const auto result_at = [&](double fraction, float weight) {
    Ngp(config).roulette_weight = weight;
    const auto step = NewNgpCpuStep(config, TinyGeometry(), &pool);
    EXPECT_THAT(step->Load(LivelyState(*step)), IsOk());
    RayBatch batch = TinyBatch(512);
    batch.fraction = fraction;
    return step->RunRays(batch);
  };
  const StepResult all = result_at(0.29, 0.1f), none = result_at(0.31, 0),
                   some = result_at(0.31, 0.1f), few = result_at(0.31, 0.5f);
  EXPECT_EQ(all.n_trained, all.n_marched);
  EXPECT_EQ(none.n_trained, none.n_marched);
  EXPECT_EQ(result_at(0.31, kAutoSetting).n_trained, none.n_trained) << "the step chooses nothing";
  EXPECT_LT(some.n_trained, 0.7 * none.n_trained);
  EXPECT_LT(few.n_trained, some.n_trained);
  EXPECT_GE(few.n_trained, 512);
  EXPECT_EQ(some.n_marched, none.n_marched);
  // Noise of the colors, no shift of them.
  EXPECT_NEAR(some.squared_error, none.squared_error, 0.1 * none.squared_error);
}

TEST(NgpCpuStepTest, RouletteTrainsTheSameBytesOnAnyNumberOfThreads) {
  TrainConfig config = CaptureConfig();
  Ngp(config).roulette_weight = 0.1f;
  const auto run = [&](int n_threads) {
    ThreadPool pool(n_threads);
    const auto step = NewNgpCpuStep(config, TinyGeometry(2), &pool, TinyViews());
    EXPECT_THAT(step->Load(LivelyState(*step)), IsOk());
    for (uint32_t i = 0; i < 9; ++i) {
      RayBatch batch = OfViews(BatchOfSeveralGroups(kRaysInFlight + 70, i));
      batch.fraction = 0.5;
      step->RunRays(batch);
    }
    return Saved(*step);
  };
  EXPECT_TRUE(SameContents(run(3), run(1)));
}

TEST(NgpCpuStepTest, LoadNamesWhatIsWrongAndChangesNothing) {
  ThreadPool pool(1);
  const auto step = NewNgpCpuStep(TinyConfig(), TinyGeometry(), &pool);
  const TensorFile whole = Saved(*step);
  step->RunRays(TinyBatch(20));
  const TensorFile before = Saved(*step);
  for (const auto& [name, tensor] : whole.tensors) {
    TensorFile broken = whole;
    broken.tensors.erase(name);
    EXPECT_THAT(step->Load(broken), StatusIs(absl::StatusCode::kInvalidArgument, name));
    broken.tensors[name] = tensor;
    broken.tensors[name].shape.push_back(2);
    EXPECT_THAT(step->Load(broken), StatusIs(absl::StatusCode::kInvalidArgument, name));
  }
  for (const auto& [name, text] : whole.metadata) {
    TensorFile broken = whole;
    broken.metadata[name] = "many";
    EXPECT_THAT(step->Load(broken), StatusIs(absl::StatusCode::kInvalidArgument, name));
  }
  EXPECT_TRUE(SameContents(Saved(*step), before));
}

TEST(NgpCpuStepTest, InitializeStartsTheOptimizerAnew) {
  ThreadPool pool(1);
  const auto donor = NewNgpCpuStep(TinyConfig(), TinyGeometry(), &pool);
  ASSERT_THAT(donor->Load(LivelyState(*donor)), IsOk());
  TensorFile model;
  donor->SaveModel(&model);
  const auto fresh = NewNgpCpuStep(TinyConfig(), TinyGeometry(), &pool);
  const auto used = NewNgpCpuStep(TinyConfig(), TinyGeometry(), &pool);
  used->RunRays(TinyBatch(20));
  ASSERT_THAT(fresh->Initialize(model), IsOk());
  ASSERT_THAT(used->Initialize(model), IsOk());
  EXPECT_TRUE(SameContents(Saved(*used), Saved(*fresh)));
  for (const std::string& name : FieldTensorNames())
    EXPECT_EQ(ToFloats(Saved(*used).tensors.at(name)), ToFloats(model.tensors.at(name)));
}

TEST(NgpCpuStepTest, InitializeTakesTheGridWhereItFits) {
  ThreadPool pool(1);
  const auto donor = NewNgpCpuStep(TinyConfig(), TinyGeometry(), &pool);
  TensorFile model;
  donor->SaveModel(&model);
  std::vector<uint8_t>& bits = model.tensors.at("occupancy.bits").bytes;
  std::fill(bits.begin(), bits.begin() + bits.size() / 4, 0);
  const auto same = NewNgpCpuStep(TinyConfig(), TinyGeometry(), &pool);
  ASSERT_THAT(same->Initialize(model), IsOk());
  EXPECT_EQ(same->OccupiedFraction(), 0.75);
  TrainConfig finer = TinyConfig();
  finer.grid_resolution = 64;
  const auto other = NewNgpCpuStep(finer, TinyGeometry(), &pool);
  ASSERT_THAT(other->Initialize(model), IsOk());
  EXPECT_EQ(other->OccupiedFraction(), 1);
  const auto nested = NewNgpCpuStep(TinyConfig(), TinyGeometry(2), &pool);
  ASSERT_THAT(nested->Initialize(model), IsOk());
  EXPECT_EQ(nested->OccupiedFraction(), 1);
}

TEST(NgpCpuStepTest, InitializeRefusesOtherLevels) {
  ThreadPool pool(1);
  TrainConfig other = TinyConfig();
  Ngp(other).n_features_per_level = 2;
  TensorFile model;
  NewNgpCpuStep(other, TinyGeometry(), &pool)->SaveModel(&model);
  const auto step = NewNgpCpuStep(TinyConfig(), TinyGeometry(), &pool);
  const TensorFile before = Saved(*step);
  EXPECT_THAT(step->Initialize(model),
              StatusIs(absl::StatusCode::kInvalidArgument, "field.hash_table"));
  EXPECT_TRUE(SameContents(Saved(*step), before));
}

TEST(NgpCpuStepTest, ReopenGridOccupiesEveryCellAgain) {
  ThreadPool pool(2);
  const auto step = NewNgpCpuStep(TinyConfig(), TinyGeometry(), &pool);
  TensorFile state = Saved(*step);
  std::fill(state.tensors.at("occupancy.bits").bytes.begin(),
            state.tensors.at("occupancy.bits").bytes.end(), 0);
  ASSERT_THAT(step->Load(state), IsOk());
  EXPECT_EQ(step->OccupiedFraction(), 0);
  const StepResult nothing = step->RunRays(TinyBatch(10));
  EXPECT_EQ(nothing.n_marched, 0);
  EXPECT_GT(nothing.loss, 0) << "rays that meet nothing still show the background";
  step->ReopenGrid();
  EXPECT_EQ(step->OccupiedFraction(), 1);
  EXPECT_GT(step->RunRays(TinyBatch(10)).n_marched, 0);
}

TEST_P(NgpBytesTest, SnapshotModelAndCheckpointRenderTheSame) {
  ThreadPool pool(2);
  const SceneGeometry geometry = TinyGeometry(2);
  const auto step = NewNgpCpuStep(Config(), geometry, &pool);
  ASSERT_THAT(step->Load(LivelyState(*step)), IsOk());
  for (uint32_t i = 0; i < 5; ++i) step->RunRays(TinyBatch(40, i));
  const Camera camera = TinyCamera(20);
  const auto render = [&](const TrainedModel& model) {
    ViewRender view(model, geometry.near, camera, {});
    EXPECT_TRUE(view.Advance(&pool, nullptr, {}));
    return view.TakeView().colors;
  };
  TensorFile model;
  step->SaveModel(&model);
  const auto from_model = LoadNgpModel(model, Config(), geometry);
  const auto from_checkpoint = LoadNgpModel(Saved(*step), Config(), geometry);
  ASSERT_THAT(from_model, IsOk());
  ASSERT_THAT(from_checkpoint, IsOk());
  const std::vector<Vec3> expected = render(*step->Snapshot());
  EXPECT_EQ(render(**from_model), expected);
  EXPECT_EQ(render(**from_checkpoint), expected);
}

TEST(NgpCpuStepTest, RaysCountInTheLossByTheirWeights) {
  ThreadPool pool(2);
  const TrainConfig config = SmoothConfig(Loss::kHuber);
  const RayBatch plain = TinyBatch(40);
  const auto run = [&](const RayBatch& batch, double* loss) {
    const auto step = NewNgpCpuStep(config, TinyGeometry(), &pool);
    EXPECT_THAT(step->Load(LivelyState(*step)), IsOk());
    *loss = step->RunRays(batch).loss;
    return ToFloats(Saved(*step).tensors.at("adam.first.field.color_mlp.2"));
  };
  RayBatch weighted = plain;
  weighted.distortion = 0;
  double whole = 0, ones = 0, halved = 0;
  const std::vector<float> gradient = run(weighted, &whole);
  weighted.weights.assign(40, 1);
  EXPECT_EQ(run(weighted, &ones), gradient);
  EXPECT_EQ(ones, whole);
  weighted.weights.assign(40, 0.5f);
  const std::vector<float> half_gradient = run(weighted, &halved);
  EXPECT_NEAR(halved, whole / 2, 1e-6 * whole);
  for (size_t i = 0; i < gradient.size(); ++i)
    ASSERT_NEAR(half_gradient[i], gradient[i] / 2, 1e-5 * std::abs(gradient[i]) + 1e-9) << i;
}

// The field's own background takes the place of the view's, and depends on the direction.
TEST(NgpCpuStepTest, ALearnedBackgroundShowsWhereRaysGoThrough) {
  ThreadPool pool(2);
  const TrainConfig config = CaptureConfig();
  const SceneGeometry geometry = TinyGeometry(2);
  const auto step = NewNgpCpuStep(config, geometry, &pool);
  ASSERT_THAT(step->Load(LivelyState(*step)), IsOk());
  const auto model = step->Snapshot();
  const auto render = [&](Vec3 background) {
    // Past the box.
    const std::vector<Ray> rays = {{{0, 0, 9}, {0, 0, 1}}, {{0, 9, 0}, {0, 1, 0}}};
    std::vector<RenderedRay> rendered(rays.size());
    RayTile tile;
    tile.rays = rays;
    tile.background = background;
    EXPECT_TRUE(model->RenderRays(tile, {}, model->NewWorkspace().get(), rendered.data()));
    return rendered;
  };
  const std::vector<RenderedRay> on_white = render({1, 1, 1}), on_black = render({0, 0, 0});
  for (size_t r = 0; r < on_white.size(); ++r) {
    EXPECT_EQ(on_white[r].color, on_black[r].color);
    EXPECT_EQ(on_white[r].opacity, 0);
    EXPECT_GT(on_white[r].color.x, 0);
  }
  EXPECT_NE(on_white[0].color, on_white[1].color);
}

// Pictures that are cut off at white say nothing of how much brighter the scene is.
TEST(NgpCpuStepTest, ExposuresDoNotDarkenWhatIsCutOffAtWhite) {
  ThreadPool pool(2);
  TrainConfig config = SmoothConfig(Loss::kMse);
  Ngp(config).exposure_rate = 1;
  const auto step = NewNgpCpuStep(config, TinyGeometry(), &pool, TinyViews());
  TensorFile state = LivelyState(*step);
  const std::vector<float> log_gains(9, 8.0f);
  state.tensors.at("view.log_gains") = TensorFromFloats(log_gains.data(), {3, 3}, DType::kF32);
  ASSERT_THAT(step->Load(state), IsOk());
  RayBatch batch = OfViews(TinyBatch(40));
  batch.distortion = 0;
  batch.targets.assign(40, {1, 1, 1});
  EXPECT_EQ(step->RunRays(batch).loss, 0);
  state.tensors.erase("adam.first.view.log_gains");
  EXPECT_THAT(step->Load(state), StatusIs(absl::StatusCode::kInvalidArgument, "log_gains"));
}

TEST(ViewExposuresTest, TheMeanOfTheGainsStaysOne) {
  ViewExposures exposures(2);
  const std::vector<int32_t> views = {0, 1, 0};
  const std::vector<Vec3> gradients = {{1, 0, -1}, {1, 2, 3}, {1, 0, 0}};
  for (int t = 0; t < 5; ++t) exposures.Update({.learning_rate = 0.1f}, views, gradients);
  const Vec3 a = exposures.gains()[0], b = exposures.gains()[1];
  for (int channel = 0; channel < 3; ++channel)
    EXPECT_NEAR(a[channel] + b[channel], 2, 1e-5f) << channel;
  EXPECT_GT(a.y, 1) << "the other picture's gradient is larger";
  EXPECT_LT(b.z, 1);
}

TEST(ViewAppearancesTest, TheMeanOfTheVectorsStaysZero) {
  ThreadPool pool(1);
  ViewAppearances appearances(3, 1);
  const std::vector<int32_t> views = {0, 1, 0};
  const std::vector<float> gradients = RandomFloats(3 * kHiddenWidth, -1, 1, 5);
  for (int t = 0; t < 5; ++t)
    appearances.Update({.learning_rate = 0.1f}, {.learning_rate = 0.1f}, views, gradients, &pool);
  TensorFile file;
  appearances.Save(&file);
  const std::vector<float> vectors = ToFloats(file.tensors.at("view.appearances"));
  for (int i = 0; i < kAppearanceWidth; ++i) {
    EXPECT_NEAR(vectors[i] + vectors[16 + i] + vectors[32 + i], 0, 1e-5f) << i;
    EXPECT_GT(std::abs(vectors[i] - vectors[16 + i]), 1e-4f) << i;
  }
}

// The mean appearance is that of a model without any; a view's is another one, and that view's own.
TEST(NgpCpuStepTest, AModelShowsTheAppearanceOfAChosenView) {
  ThreadPool pool(2);
  TrainConfig config = TinyConfig();
  Ngp(config).appearance_rate = 1;
  const auto step = NewNgpCpuStep(config, TinyGeometry(), &pool, TinyViews());
  TensorFile state = LivelyViewState(*step);
  for (const char* name : {"view.appearances", "field.appearance_layer"})
    state.tensors.at(std::string("average.") + name) = state.tensors.at(name);
  ASSERT_THAT(step->Load(state), IsOk());
  TensorFile model;
  step->SaveModel(&model);
  const Camera camera = TinyCamera(12);
  const auto render = [&](const TensorFile& file) {
    const auto loaded = LoadNgpModel(file, config, TinyGeometry());
    EXPECT_THAT(loaded, IsOk());
    ViewRender view(**loaded, TinyGeometry().near, camera, {});
    EXPECT_TRUE(view.Advance(&pool, nullptr, {}));
    return view.TakeView().colors;
  };
  TensorFile plain = model;
  plain.tensors.erase("view.appearances");
  plain.tensors.erase("field.appearance_layer");
  const std::vector<Vec3> mean = render(model);
  EXPECT_EQ(render(plain), mean);
  TensorFile first = model, second = model, of_checkpoint = state;
  ASSERT_THAT(ShowAppearanceOf(0, &first), IsOk());
  ASSERT_THAT(ShowAppearanceOf(2, &second), IsOk());
  ASSERT_THAT(ShowAppearanceOf(2, &of_checkpoint), IsOk());
  EXPECT_NE(render(first), mean);
  EXPECT_NE(render(second), render(first));
  EXPECT_EQ(render(of_checkpoint), render(second));
  const std::vector<float> terms = ViewTerms(state);
  const std::vector<float> shown = ToFloats(second.tensors.at("field.shown_appearance"));
  for (int j = 0; j < kHiddenWidth; ++j)
    EXPECT_NEAR(shown[j], terms[2 * kHiddenWidth + j], 2e-3f) << j;
}

TEST(NgpCpuStepTest, AppearancesThatAFileDoesNotHoldAreRefused) {
  ThreadPool pool(1);
  TrainConfig config = TinyConfig();
  Ngp(config).appearance_rate = 1;
  const auto step = NewNgpCpuStep(config, TinyGeometry(), &pool, TinyViews());
  TensorFile model;
  step->SaveModel(&model);
  EXPECT_THAT(ShowAppearanceOf(3, &model),
              StatusIs(absl::StatusCode::kInvalidArgument, "no picture 3"));
  EXPECT_THAT(ShowAppearanceOf(-1, &model), StatusIs(absl::StatusCode::kInvalidArgument, "-1"));
  TensorFile none = model, scalar = model, narrow = model, hostile = model;
  none.tensors.erase("view.appearances");
  EXPECT_THAT(ShowAppearanceOf(0, &none),
              StatusIs(absl::StatusCode::kInvalidArgument, "appearance_rate"));
  scalar.tensors.at("view.appearances").shape = {};
  EXPECT_FALSE(ShowAppearanceOf(0, &scalar).ok());
  narrow.tensors.at("view.appearances").shape = {6, 8};
  EXPECT_THAT(ShowAppearanceOf(0, &narrow),
              StatusIs(absl::StatusCode::kInvalidArgument, "view.appearances"));
  const std::vector<float> three = {1, 2, 3};
  hostile.tensors["field.shown_appearance"] = TensorFromFloats(three.data(), {3}, DType::kF32);
  EXPECT_THAT(LoadNgpModel(hostile, config, TinyGeometry()),
              StatusIs(absl::StatusCode::kInvalidArgument, "field.shown_appearance"));
  TensorFile state = Saved(*step);
  state.tensors.erase("adam.first.field.appearance_layer");
  EXPECT_THAT(step->Load(state), StatusIs(absl::StatusCode::kInvalidArgument, "appearance_layer"));
}

// Rays begin inside of the box, so that their samples' distances do not depend on them. Only one
// ray in kPoseRays is looked at, and colors do not depend on the direction: that part is left out.
TEST(NgpCpuStepTest, GradientsOfPosesAgreeWithCentralDifferences) {
  ThreadPool pool(2);
  TrainConfig config = SmoothConfig(Loss::kMse);
  Ngp(config).finest_resolution = 32;
  Ngp(config).pose_rate = 1;
  const auto step = NewNgpCpuStep(config, TinyGeometry(), &pool, TinyViews());
  TensorFile state = LivelyState(*step);
  Tensor& layer = state.tensors.at("field.color_mlp.0");
  std::vector<float> weights = ToFloats(layer);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = i % 32 < 16 ? 0 : weights[i];
  layer = TensorFromFloats(weights.data(), layer.shape, DType::kF32);
  ASSERT_THAT(step->Load(state), IsOk());
  RayBatch batch = TinyBatch(96, 0, /*learning_rate=*/0);
  batch.distortion = 0;
  for (int r = 0; r < batch.n_rays; ++r) {
    batch.rays[r].origin = batch.rays[r].origin * 0.2f;
    batch.views.push_back(r % 3);
    batch.weights.push_back(r % kPoseRays == 0 ? 1 : 0);
  }
  step->RunRays(batch);
  const std::vector<float> moments = ToFloats(Saved(*step).tensors.at("adam.first.view.poses"));
  for (int view = 0; view < 3; ++view) {
    for (int freedom = 0; freedom < 6; ++freedom) {
      constexpr float kDistance = 1e-4f;
      const auto loss_at = [&](float distance) {
        Vec3 axis;
        axis[freedom % 3] = distance;
        RayBatch moved = batch;
        for (int r = view; r < batch.n_rays; r += 3) {
          Ray& ray = moved.rays[r];
          if (freedom < 3) ray.direction = ray.direction + Cross(axis, ray.direction);
          if (freedom >= 3) ray.origin = ray.origin + axis;
        }
        EXPECT_THAT(step->Load(state), IsOk());
        return step->RunRays(moved).loss;
      };
      const double slope = (loss_at(kDistance) - loss_at(-kDistance)) / (2 * kDistance);
      const float gradient = moments[6 * view + freedom] / ((1 - config.beta1) * config.loss_scale);
      EXPECT_NEAR(gradient, slope, 0.03 * std::abs(slope) + 2e-4) << view << " " << freedom;
    }
  }
}

TEST(NgpCpuStepTest, StepsOfPosesShrinkToASixteenthOverTheBudget) {
  ThreadPool pool(1);
  TrainConfig config = TinyConfig();
  Ngp(config).pose_rate = 0.1f;
  const auto poses_after = [&](double fraction) {
    const auto step = NewNgpCpuStep(config, TinyGeometry(), &pool, TinyViews());
    EXPECT_THAT(step->Load(LivelyState(*step)), IsOk());
    RayBatch batch = OfViews(TinyBatch(90));
    batch.fraction = fraction;
    step->RunRays(batch);
    return ToFloats(Saved(*step).tensors.at("view.poses"));
  };
  const std::vector<float> first = poses_after(0), middle = poses_after(0.5), last = poses_after(1);
  int n_moved = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_NEAR(middle[i], first[i] / 4, 1e-3f * std::abs(first[i])) << i;
    EXPECT_NEAR(last[i], first[i] / 16, 1e-3f * std::abs(first[i])) << i;
    if (first[i] != 0) ++n_moved;
  }
  EXPECT_GT(n_moved, 6);
}

TEST(ViewPosesTest, AQuarterTurnAndAShiftMoveARay) {
  ViewPoses poses(std::vector<Vec3>(2), 2.0f);
  TensorFile file;
  poses.Save(&file);
  const float quarter = std::acos(0.0f);
  const std::vector<float> values = {0, 0, 0, 0, 0, 0, 0, 0, quarter, 0.5f, 0, -1};
  file.tensors.at("view.poses") = TensorFromFloats(values.data(), {2, 6}, DType::kF32);
  ASSERT_THAT(poses.Load(file), IsOk());
  Ray still{{1, 2, 3}, {1, 0, 0}}, turned = still;
  poses.Apply(0, &still);
  EXPECT_EQ(still.direction, (Vec3{1, 0, 0}));
  EXPECT_EQ(still.origin, (Vec3{1, 2, 3}));
  poses.Apply(1, &turned);
  EXPECT_NEAR(turned.direction.x, 0, 1e-6f);
  EXPECT_NEAR(turned.direction.y, 1, 1e-6f);
  EXPECT_EQ(turned.origin, (Vec3{2, 2, 1}));
}

TEST(ViewPosesTest, ACameraMovesAsItsRaysDo) {
  ViewPoses poses({{1, 0, 0}, {0, 1, 0}}, 2.0f);
  TensorFile file;
  poses.Save(&file);
  const std::vector<float> values = {0, 0, 0, 0, 0, 0, 0.1f, -0.2f, 0.3f, 0.5f, 0.25f, -1};
  file.tensors.at("view.poses") = TensorFromFloats(values.data(), {2, 6}, DType::kF32);
  ASSERT_THAT(poses.Load(file), IsOk());
  Camera camera;
  camera.width = camera.height = 100;
  camera.fl_x = camera.fl_y = 80;
  camera.cx = camera.cy = 50;
  camera.camera_to_world.m[1][3] = 1;
  EXPECT_EQ(poses.Corrected(0, camera.camera_to_world), camera.camera_to_world);
  Ray ray = CameraRay(camera, 20.5f, 70.5f);
  poses.Apply(1, &ray);
  camera.camera_to_world = poses.Corrected(1, camera.camera_to_world);
  const Ray corrected = CameraRay(camera, 20.5f, 70.5f);
  for (int axis = 0; axis < 3; ++axis) {
    EXPECT_NEAR(corrected.direction[axis], ray.direction[axis], 1e-6f);
    EXPECT_NEAR(corrected.origin[axis], ray.origin[axis], 1e-6f);
  }
}

TEST(ViewPosesTest, WhatAllCamerasDoTogetherIsTakenOutOnce) {
  const std::vector<Vec3> positions = {{4, 1, 1}, {1, 4, 1}, {1, 1, 4}, {-2, -2, -2}};
  const Vec3 mean{1, 1, 1}, turn{0.01f, -0.02f, 0.03f}, shift{0.1f, 0.2f, -0.1f};
  constexpr float kLength = 2, kScale = 0.05f;
  // After updates that change nothing, of common motion and a turn and a shift of one view.
  const auto left = [&](float own, int n_updates = 1) {
    std::vector<float> values;
    for (const Vec3& position : positions) {
      const Vec3 place = (position - mean) * (1 / kLength);
      const Vec3 moved = shift + Cross(turn, place) + place * kScale;
      for (int i = 0; i < 6; ++i) values.push_back(i < 3 ? turn[i] : moved[i - 3]);
    }
    values[6] += own;
    values[9] += own;
    ViewPoses poses(positions, kLength);
    TensorFile file;
    poses.Save(&file);
    file.tensors.at("view.poses") = TensorFromFloats(values.data(), {4, 6}, DType::kF32);
    EXPECT_THAT(poses.Load(file), IsOk());
    for (int n = 0; n < n_updates; ++n) poses.Update({}, {}, {}, {});
    poses.Save(&file);
    return ToFloats(file.tensors.at("view.poses"));
  };
  for (const float value : left(0)) EXPECT_NEAR(value, 0, 1e-7f);
  const std::vector<float> own = left(0.01f);
  EXPECT_GT(own[6], 0.003f);
  EXPECT_GT(own[9], 0.003f);
  float sum = 0;
  for (size_t i = 3; i < own.size(); i += 6) sum += own[i];
  EXPECT_NEAR(sum, 0, 1e-7f);
  const std::vector<float> twice = left(0.01f, 2);
  for (size_t i = 0; i < own.size(); ++i) EXPECT_NEAR(twice[i], own[i], 1e-7f) << i;
}

TEST(ViewPosesTest, CamerasAtOnePlaceHaveNoTurnAndNoShiftInCommon) {
  ViewPoses poses(std::vector<Vec3>(3, Vec3{10, 20, 30}), 2.0f);
  TensorFile file;
  poses.Save(&file);
  std::vector<float> values(18, 0.0f);
  values[0] = values[3] = 0.03f;
  file.tensors.at("view.poses") = TensorFromFloats(values.data(), {3, 6}, DType::kF32);
  ASSERT_THAT(poses.Load(file), IsOk());
  poses.Update({}, {}, {}, {});
  poses.Save(&file);
  const std::vector<float> own = ToFloats(file.tensors.at("view.poses"));
  for (const int freedom : {0, 3}) {
    EXPECT_NEAR(own[freedom], 0.02f, 1e-4f);
    EXPECT_NEAR(own[6 + freedom], -0.01f, 1e-4f);
    EXPECT_NEAR(own[12 + freedom], -0.01f, 1e-4f);
  }
}

TEST(DepthRaysTest, EveryEighthRayGoesToAPointAndLearnsItsDistanceAlone) {
  const std::vector<SeenPoint> points = {{0, {0, 0, 0}}, {1, {1, 2, 2}}, {1, {0.01f, 0, 0}}};
  std::vector<LensCamera> cameras(2);
  cameras[0].camera_to_world.m[2][3] = 3;
  const RayBatch plain = TinyBatch(160, 5);
  RayBatch batch = plain;
  AppendDepthRays({points, {}}, cameras, ViewPoses({}, 1), 0.05f, 1, &batch);
  ASSERT_GT(batch.n_rays, 165);
  ASSERT_LE(batch.n_rays, 180);
  EXPECT_EQ(batch.rays.size(), static_cast<size_t>(batch.n_rays));
  EXPECT_EQ(batch.backgrounds.size(), static_cast<size_t>(batch.n_rays));
  for (int r = 0; r < batch.n_rays; ++r) {
    EXPECT_EQ(batch.weights[r], r < 160 ? 1 : 0);
    if (r < 160) {
      EXPECT_EQ(batch.depths[r], 0);
      continue;
    }
    EXPECT_EQ(batch.depths[r], 3) << "the third point is nearer than `near`";
    const Vec3 end = batch.rays[r].origin + batch.rays[r].direction * batch.depths[r];
    const Vec3 expected = points[batch.views[r]].position;
    for (int axis = 0; axis < 3; ++axis) EXPECT_NEAR(end[axis], expected[axis], 1e-6f);
  }
}

// A map of 16x8, 3 units from the camera along its axis, but for the left half, which is unknown.
DepthMap HalfKnownMap() {
  DepthMap map;
  map.view = 1;
  map.image = {16, 8, std::vector<uint16_t>(128, 300)};
  for (size_t i = 0; i < 128; ++i) {
    if (i % 16 < 8) map.image.pixels[i] = 0;
  }
  map.unit = 0.01f;
  map.pixels_x = map.pixels_y = 2;
  return map;
}

// Cameras of which the second took the picture of HalfKnownMap.
std::vector<LensCamera> CamerasOfMap() {
  std::vector<LensCamera> cameras(2);
  cameras[1].fl_x = cameras[1].fl_y = 20;
  cameras[1].cx = 16;
  cameras[1].cy = 8;
  return cameras;
}

TEST(DepthRaysTest, RaysThroughKnownPixelsOfAMapLearnTheirDistance) {
  const std::vector<DepthMap> maps = {HalfKnownMap()};
  const std::vector<LensCamera> cameras = CamerasOfMap();
  RayBatch batch = TinyBatch(800, 5);
  AppendDepthRays({{}, maps}, cameras, ViewPoses({}, 1), 0.05f, 1, &batch);
  // Half of the pixels are known, an eighth of those held out; each ray has two tries.
  ASSERT_GT(batch.n_rays, 850);
  ASSERT_LT(batch.n_rays, 895);
  for (int r = 800; r < batch.n_rays; ++r) {
    const Ray& ray = batch.rays[r];
    EXPECT_EQ(batch.views[r], 1);
    EXPECT_EQ(batch.weights[r], 0);
    const Vec3 end = ray.origin + ray.direction * batch.depths[r];
    EXPECT_NEAR(end.z, -3, 1e-5f);
    const float x = (end.x / 3 * 20 + 16) / 2, y = (-end.y / 3 * 20 + 8) / 2;
    EXPECT_GT(x, 8) << "known";
    EXPECT_NEAR(x - std::floor(x), 0.5f, 1e-3f) << "the middle of a pixel";
    const int pixel = static_cast<int>(x) + 16 * static_cast<int>(y);
    EXPECT_NE(pixel % kDepthHeldOut, 0u);
  }
}

TEST(DepthRaysTest, PointsAndMapsTakeTurnsAndPosesMoveTheRaysOfBoth) {
  const std::vector<SeenPoint> points = {{0, {0, 0, -2}}};
  const std::vector<DepthMap> maps = {HalfKnownMap()};
  const std::vector<LensCamera> cameras = CamerasOfMap();
  ViewPoses poses(std::vector<Vec3>(2), 1);
  TensorFile file;
  poses.Save(&file);
  const std::vector<float> values = {0, 0, 0, 0, 0.25f, 0, 0, 0, 0, 0, 0.5f, 0};
  file.tensors.at("view.poses") = TensorFromFloats(values.data(), {2, 6}, DType::kF32);
  ASSERT_THAT(poses.Load(file), IsOk());
  RayBatch batch = TinyBatch(160, 5);
  AppendDepthRays({points, maps}, cameras, poses, 0.05f, 1, &batch);
  int n_points = 0, n_maps = 0;
  for (int r = 160; r < batch.n_rays; ++r) {
    (batch.views[r] == 0 ? n_points : n_maps) += 1;
    EXPECT_EQ(batch.rays[r].origin.y, batch.views[r] == 0 ? 0.25f : 0.5f);
  }
  EXPECT_EQ(n_points, 10);
  EXPECT_GT(n_maps, 3);
}

TEST(NgpCpuStepTest, DepthMapsTrainTheSameBytesOnOneAndTwoThreads) {
  const std::vector<DepthMap> maps = {HalfKnownMap()};
  std::vector<View> views(2);
  for (View& view : views) view.camera = TinyCamera(32);
  TrainConfig config = TinyConfig();
  Ngp(config).depth_weight = 0.1f;
  const auto run = [&](int n_threads, const KnownDepths& depths) {
    ThreadPool pool(n_threads);
    const auto step = NewNgpCpuStep(config, TinyGeometry(), &pool, views, nullptr, depths);
    EXPECT_THAT(step->Load(LivelyState(*step)), IsOk());
    for (uint32_t i = 0; i < 6; ++i) step->RunRays(TinyBatch(160, i));
    return Saved(*step);
  };
  const TensorFile one = run(1, {{}, maps});
  EXPECT_TRUE(SameContents(run(2, {{}, maps}), one));
  EXPECT_FALSE(SameContents(run(1, {}), one)) << "the map teaches something";
}

TEST(NgpStateTest, LevelsOfTheEncodingComeInOneAfterAnother) {
  TrainConfig config;
  Ngp(config).coarse_share = 0.3f;
  EXPECT_EQ(ActiveLevels(config, 0), 2);
  EXPECT_EQ(ActiveLevels(config, 0.149), 4);
  EXPECT_EQ(ActiveLevels(config, 0.301), 8);
  EXPECT_EQ(ActiveLevels(config, 1), 8);
  Ngp(config).n_features_per_level = 2;
  EXPECT_EQ(ActiveLevels(config, 0), 4);
  Ngp(config).coarse_share = 0;
  EXPECT_EQ(ActiveLevels(config, 0), 16);
}

TEST(LoadNgpModelTest, RefusesAGridOfAnotherNumberOfLevels) {
  ThreadPool pool(1);
  TensorFile model;
  NewNgpCpuStep(TinyConfig(), TinyGeometry(2), &pool)->SaveModel(&model);
  EXPECT_THAT(LoadNgpModel(model, TinyConfig(), TinyGeometry(1)),
              StatusIs(absl::StatusCode::kInvalidArgument, "occupancy.bits"));
}

TEST(NgpCpuStepTest, FrozenPartsStayAsTheyAre) {
  ThreadPool pool(2);
  for (const Frozen frozen : {Frozen::kNone, Frozen::kMlp, Frozen::kTable}) {
    TrainConfig config = TinyConfig();
    Ngp(config).frozen = frozen;
    const auto step = NewNgpCpuStep(config, TinyGeometry(), &pool);
    const TensorFile before = Saved(*step);
    for (uint32_t i = 0; i < 3; ++i) step->RunRays(TinyBatch(64, i));
    const TensorFile after = Saved(*step);
    for (const std::string& name : FieldTensorNames()) {
      const bool is_table = name == "field.hash_table";
      const bool stays = frozen == (is_table ? Frozen::kTable : Frozen::kMlp);
      EXPECT_EQ(after.tensors.at(name).bytes == before.tensors.at(name).bytes, stays)
          << static_cast<int>(frozen) << " " << name;
    }
  }
}

}  // namespace
}  // namespace nerf
