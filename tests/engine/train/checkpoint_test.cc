#include "engine/field/files/checkpoint.h"

#include <gtest/gtest.h>

#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using ::absl::StatusCode;

// Has numbers that need all digits in decimal text.
TrainState SampleState() {
  TrainState state;
  state.config.seed = 4000000000u;
  state.config.budget = {BudgetKind::kSteps, 2500};
  state.config.background = Background::kRandom;
  state.config.learning_rate = 1.0f / 3;
  state.config.target_samples = 12345;
  state.geometry.flavor = SceneFlavor::kNerfstudio;
  state.geometry.frame.scale = 1.0f / 7;
  for (int i = 0; i < 3; ++i) state.geometry.frame.own_to_training.m[i][i] = 1.0f / 7;
  state.geometry.frame.own_to_training.m[0][3] = -0.1f;
  state.geometry.box = {{-1.5f, -1.5f, -1e-7f}, {1.5f, 1.5f, 3}};
  state.geometry.n_levels = 4;
  state.geometry.near = 0.05f;
  state.geometry.step = 0.0033829117f;
  state.geometry.cone = 1.0f / 256;
  state.geometry.mean_up = {0.1f, 0.2f, 0.97f};
  state.geometry.median_distance = 4.03112887f;
  state.evaluation_background = Background::kBlack;
  state.reference_camera.width = 200;
  state.reference_camera.height = 100;
  state.reference_camera.fl_x = state.reference_camera.fl_y = 277.7778f;
  state.reference_camera.lens = LensModel::kOpenCv;
  state.reference_camera.k1 = -0.0578421f;
  state.n_train_views = 100;
  state.n_test_views = 25;
  state.step = 1234;
  state.n_trained = 40'000'000'000;
  state.n_marched = 90'000'000'001;
  state.n_rays = 5;
  state.watchdog = {0.0012345678901234, 0.001, 50, 2, 1, 0.5f};
  return state;
}

TensorFile StoredCheckpoint(const TrainState& state,
                            TrainFileKind kind = TrainFileKind::kCheckpoint) {
  TensorFile file;
  StoreTrainState(state, kind, &file);
  return file;
}

TEST(CheckpointTest, RoundTripIsExact) {
  const auto loaded = LoadTrainState(StoredCheckpoint(SampleState()), "f");
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(loaded->kind, TrainFileKind::kCheckpoint);
  EXPECT_EQ(loaded->state, SampleState());
}

TEST(CheckpointTest, EqualStatesAreEqualBytes) {
  EXPECT_EQ(SerializeTensorFile(StoredCheckpoint(SampleState())),
            SerializeTensorFile(StoredCheckpoint(SampleState())));
  TrainState slower = SampleState();
  slower.seconds = 77;  // stored only if the budget is in seconds
  EXPECT_EQ(SerializeTensorFile(StoredCheckpoint(slower)),
            SerializeTensorFile(StoredCheckpoint(SampleState())));
}

TEST(CheckpointTest, ScheduleComesBackAndTheUsualOneIsNotStored) {
  TrainState state = SampleState();
  EXPECT_FALSE(StoredCheckpoint(state).metadata.contains("schedule"));
  state.schedule = {0.1 + 0.2, 1.0 / 3};
  const auto loaded = LoadTrainState(StoredCheckpoint(state), "f");
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(loaded->state, state);
}

TEST(CheckpointTest, SecondsAreStoredWhereTheyAreTheBudget) {
  TrainState state = SampleState();
  state.config.budget = {BudgetKind::kSeconds, 60};
  state.seconds = 1.0 / 3;
  const auto loaded = LoadTrainState(StoredCheckpoint(state), "f");
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(loaded->state.seconds, 1.0 / 3);
}

TEST(CheckpointTest, ModelLeavesOutWhatOnlyTrainingNeeds) {
  const TensorFile file = StoredCheckpoint(SampleState(), TrainFileKind::kModel);
  const auto loaded = LoadTrainState(file, "f");
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(loaded->kind, TrainFileKind::kModel);
  EXPECT_EQ(loaded->state.geometry, SampleState().geometry);
}

TEST(CheckpointTest, EveryMissingKeyIsNamed) {
  const TensorFile whole = StoredCheckpoint(SampleState());
  int n_required = 0;
  for (const auto& [key, value] : whole.metadata) {
    if (key.rfind("setting.", 0) == 0) continue;  // older files may lack newer settings
    TensorFile file = whole;
    file.metadata.erase(key);
    EXPECT_THAT(LoadTrainState(file, "path"), StatusIs(StatusCode::kInvalidArgument, key));
    EXPECT_THAT(LoadTrainState(file, "path"), StatusIs(StatusCode::kInvalidArgument, "path"));
    ++n_required;
  }
  EXPECT_GT(n_required, 25);
}

TEST(CheckpointTest, OriginComesBackAndBrokenOnesAreRefused) {
  TrainState state = SampleState();
  EXPECT_FALSE(StoredCheckpoint(state).metadata.contains("scene.origin"));
  state.geometry.frame.origin = {441550, 5121950.1, -0.3};
  const TensorFile whole = StoredCheckpoint(state);
  const auto loaded = LoadTrainState(whole, "f");
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(loaded->state, state);
  for (const char* text : {"", "1", "1 2", "1 2 3 4", "1 2 nan", "inf 0 0", "0 1e300 0", "0 0 -2e9",
                           "0 0 x", "0  0 0", "0,0,0"}) {
    TensorFile broken = whole;
    broken.metadata["scene.origin"] = text;
    EXPECT_THAT(LoadTrainState(broken, "f"), StatusIs(StatusCode::kInvalidArgument, "scene.origin"))
        << text;
  }
}

TEST(CheckpointTest, FrustumComesBackAndBrokenOnesAreRefused) {
  TrainState state = SampleState();
  state.geometry.frustum = {{0.1f, -2, 1.0f / 3}, {0, 1, 0}, {0, 0, 1}, {1, 0, 0}, 0.7f, 1.1f};
  const TensorFile whole = StoredCheckpoint(state);
  const auto loaded = LoadTrainState(whole, "f");
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(loaded->state, state);
  for (const char* text : {"", "1", "0 1 0 0 0 0 1 0 0 0 1 1 0 0", "1 0 0 0 0 0 1 0 0 0 1 1 0 0",
                           "-1 1 0 0 0 0 1 0 0 0 1 1 0 0", "1 nan 0 0 0 0 1 0 0 0 1 1 0 0",
                           "1 1 inf 0 0 0 1 0 0 0 1 1 0 0", "1 1 0 0 0 0 2 0 0 0 1 1 0 0",
                           "1 1 0 0 0 0 1 0 0 1 0 1 0 0", "1 1 0 0 0 0 1 0 0 0 1 1 0 0 0"}) {
    TensorFile broken = whole;
    broken.metadata["scene.frustum"] = text;
    EXPECT_THAT(LoadTrainState(broken, "f"),
                StatusIs(StatusCode::kInvalidArgument, "scene.frustum"))
        << text;
  }
}

TEST(CheckpointTest, AnEncodingInPerspectiveNeedsItsFrustum) {
  TensorFile file = StoredCheckpoint(SampleState());
  file.metadata["setting.contraction"] = "perspective";
  EXPECT_THAT(LoadTrainState(file, "f"), StatusIs(StatusCode::kInvalidArgument, "perspective"));
}

TEST(CheckpointTest, MissingSettingKeepsItsDefault) {
  TensorFile file = StoredCheckpoint(SampleState());
  file.metadata.erase("setting.target_samples");
  const auto loaded = LoadTrainState(file, "f");
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(loaded->state.config.target_samples, TrainConfig().target_samples);
}

struct BadValue {
  const char* key;
  const char* value;
};

class BadMetadataTest : public ::testing::TestWithParam<BadValue> {};

TEST_P(BadMetadataTest, IsRefusedAndNamed) {
  TensorFile file = StoredCheckpoint(SampleState());
  file.metadata[GetParam().key] = GetParam().value;
  EXPECT_THAT(LoadTrainState(file, "f"),
              StatusIs(StatusCode::kInvalidArgument, std::string(GetParam().key)))
      << GetParam().value;
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoint, BadMetadataTest,
    ::testing::Values(BadValue{"format", "other"}, BadValue{"format_version", "2"},
                      BadValue{"kind", "mesh"}, BadValue{"seed", "-1"},
                      BadValue{"seed", "4294967296"}, BadValue{"seed", ""}, BadValue{"seed", "1x"},
                      BadValue{"budget", "steps"}, BadValue{"budget", "years 3"},
                      BadValue{"budget", "steps nan"}, BadValue{"background", "green"},
                      BadValue{"test_every", "-3"}, BadValue{"setting.target_samples", "1e99"},
                      BadValue{"setting.nonsense", "1"}, BadValue{"scene.flavor", "x"},
                      BadValue{"scene.own_to_training", "1 2 3"},
                      BadValue{"scene.own_to_training", "1 0 0 0 0 1 0 0 0 0 1 inf"},
                      BadValue{"scene.own_to_training", "0 0 0 0 0 0 0 0 0 0 0 0"},
                      BadValue{"scene.own_to_training", "1 0 0 0 0 1 0 0 0 0 1 0"},
                      BadValue{"scene.box_max", "1.5 1.5 0"}, BadValue{"scene.scale", "0"},
                      BadValue{"scene.scale", "nan"}, BadValue{"scene.box_max", "-9 0 0"},
                      BadValue{"scene.box_min", "1e30 0 0"}, BadValue{"scene.n_levels", "9"},
                      BadValue{"scene.n_levels", "0"}, BadValue{"scene.march", "0.1 1e-30 0"},
                      BadValue{"scene.march", "0.1 6 0"}, BadValue{"scene.march", "0.1 7e-5 0"},
                      BadValue{"scene.march", "0.1 0.01"}, BadValue{"scene.march", "0.1  0.01 0"},
                      BadValue{"camera.size", "0 10"}, BadValue{"camera.size", "100000 100000"},
                      BadValue{"camera.lens", "mirror"}, BadValue{"camera.intrinsics", "0 1 1 1"},
                      BadValue{"evaluation_background", "random"}, BadValue{"step", "-1"},
                      BadValue{"step", "99999999999"}, BadValue{"samples", "-5"},

                      BadValue{"watchdog.rate_factor", "2"}, BadValue{"schedule", "0.5"},
                      BadValue{"schedule", "1 0"}, BadValue{"schedule", "0.5 nan"},
                      BadValue{"watchdog.counts", "1 1"}));

TEST(BackgroundTest, EvaluationIsWhiteWithAlphaUnlessBlackAndBlackWithoutUnlessWhite) {
  EXPECT_EQ(EvaluationBackground(Background::kAuto, true), Background::kWhite);
  EXPECT_EQ(EvaluationBackground(Background::kRandom, true), Background::kWhite);
  EXPECT_EQ(EvaluationBackground(Background::kBlack, true), Background::kBlack);
  EXPECT_EQ(EvaluationBackground(Background::kAuto, false), Background::kBlack);
  EXPECT_EQ(EvaluationBackground(Background::kRandom, false), Background::kBlack);
  EXPECT_EQ(EvaluationBackground(Background::kWhite, false), Background::kWhite);
}

TEST(BackgroundTest, TrainingIsRandomWithAlphaAndBlackWithout) {
  EXPECT_EQ(TrainingBackground(Background::kAuto, true), Background::kRandom);
  EXPECT_EQ(TrainingBackground(Background::kAuto, false), Background::kBlack);
  EXPECT_EQ(TrainingBackground(Background::kWhite, false), Background::kWhite);
}

TEST(EffectiveGeometryTest, ConfigOverridesOnlyWhatItSets) {
  SceneGeometry geometry;
  geometry.near = 0.1f;
  geometry.step = 0.01f;
  geometry.cone = 0.004f;
  TrainConfig config;
  EXPECT_EQ(EffectiveGeometry(config, geometry), geometry);
  config.near = config.step = config.cone = -0.5f;
  EXPECT_EQ(EffectiveGeometry(config, geometry), geometry) << "whatever is negative";
  config.step = -1;
  config.near = 0;
  config.cone = 0;
  const SceneGeometry effective = EffectiveGeometry(config, geometry);
  EXPECT_EQ(effective.near, 0);
  EXPECT_EQ(effective.cone, 0);
  EXPECT_EQ(effective.step, 0.01f);
}

}  // namespace
}  // namespace nerf
