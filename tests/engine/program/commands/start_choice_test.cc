// Models are files of headers only as far as the choice reads them; tensors are empty halves.
#include "engine/program/session/start_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/base/method_list/method_descriptions.h"
#include "engine/field/files/checkpoint.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/tiny_training.h"

namespace nerf {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

class StartChoiceTest : public ::testing::Test {
 protected:
  StartChoiceTest() {
    Ngp(config_).log2_hashmap_size = 12;
    Ngp(config_).finest_resolution = 1024;
    geometry_.flavor = SceneFlavor::kBlender;
  }

  TrainState State(int64_t n_trained, uint32_t n_views, SceneFlavor flavor) {
    TrainState state;
    state.config = config_;
    state.geometry = geometry_;
    state.geometry.flavor = flavor;
    state.reference_camera.width = state.reference_camera.height = 8;
    state.reference_camera.fl_x = state.reference_camera.fl_y = 10;
    state.n_train_views = n_views;
    state.n_trained = n_trained;
    return state;
  }
  void WriteModel(const std::string& name, const TrainState& state) {
    TensorFile file;
    for (const TensorShape& tensor : FieldTensorShapes(state.config)) {
      size_t n = 1;
      for (const uint32_t side : tensor.shape) n *= side;
      const std::vector<float> zeros(n);
      file.tensors[tensor.name] = TensorFromFloats(zeros.data(), tensor.shape, DType::kF16);
    }
    StoreTrainState(state, TrainFileKind::kModel, &file);
    const std::string path = dir_ / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    ASSERT_THAT(WriteTensorFile(file, path), IsOk());
  }
  absl::StatusOr<StartChoice> Choose(StartScope scope = StartScope::kAll) {
    return ChooseStart(dir_ / "", {config_, geometry_, 5, scope});
  }

  TempDir dir_;
  TrainConfig config_;
  SceneGeometry geometry_ = TinyGeometry();
};

TEST_F(StartChoiceTest, SameCaptureComesBeforeKindAndKindBeforeSamples) {
  WriteModel("a/other.safetensors", State(30'000'000, 5, SceneFlavor::kColmap));
  EXPECT_EQ(Choose()->path, dir_ / "a/other.safetensors");
  WriteModel("b/kind.safetensors", State(20'000'000, 9, SceneFlavor::kBlender));
  EXPECT_EQ(Choose()->path, dir_ / "b/kind.safetensors");
  WriteModel("c/capture.safetensors", State(1'000'000, 5, SceneFlavor::kBlender));
  const auto choice = Choose();
  ASSERT_THAT(choice, IsOk());
  EXPECT_EQ(choice->path, dir_ / "c/capture.safetensors");
  EXPECT_EQ(choice->reason,
            "trained on the same capture with 1.0 M samples; of 3 files, 3 can be taken over");
}

TEST_F(StartChoiceTest, ModelOfSomeOfTheViewsIsOfTheSameCapture) {
  TrainState state = State(1'000'000, 2, SceneFlavor::kBlender);
  std::vector<CaptureView> views;
  for (int i = 0; i < 5; ++i) {
    Camera camera = state.reference_camera;
    camera.camera_to_world.m[0][3] = static_cast<float>(i);
    views.push_back({"images/" + std::to_string(i) + ".jpg", camera});
  }
  state.capture = {views[1], views[3]};
  WriteModel("a.safetensors", state);
  const auto choose = [&] {
    return ChooseStart(dir_ / "", {config_, geometry_, 5, StartScope::kAll, views});
  };
  EXPECT_TRUE(choose()->same_capture);
  views[3].camera.camera_to_world.m[2][3] += 1;
  EXPECT_FALSE(choose()->same_capture) << "another frame";
  views.pop_back();
  views.pop_back();
  EXPECT_FALSE(choose()->same_capture) << "a view is missing";
}

TEST_F(StartChoiceTest, ModelOfAnotherLocalOriginIsLeftOut) {
  WriteModel("a.safetensors", State(1'000'000, 5, SceneFlavor::kBlender));
  geometry_.frame.origin = {500000, 0, 0};
  EXPECT_THAT(Choose(), StatusIs(StatusCode::kNotFound, "local origin"));
  WriteModel("b.safetensors", State(1'000, 5, SceneFlavor::kBlender));
  EXPECT_TRUE(Choose()->same_capture);
}

TEST_F(StartChoiceTest, OfEqualsTheOneWithMoreSamplesIsTaken) {
  WriteModel("a.safetensors", State(1'000'000, 9, SceneFlavor::kBlender));
  WriteModel("b.safetensors", State(2'000'000, 9, SceneFlavor::kBlender));
  EXPECT_EQ(Choose()->path, dir_ / "b.safetensors");
}

TEST_F(StartChoiceTest, WhatDoesNotFitIsLeftOut) {
  TrainState other = State(9'000'000, 5, SceneFlavor::kBlender);
  Ngp(other.config).n_features_per_level = 2;
  WriteModel("a.safetensors", other);
  TrainState finer = State(9'000'000, 5, SceneFlavor::kBlender);
  Ngp(finer.config).finest_resolution = 64;
  WriteModel("b.safetensors", finer);
  EXPECT_THAT(Choose(), StatusIs(StatusCode::kNotFound, "field.hash_table is"));
  EXPECT_THAT(Choose().status().message(), HasSubstr("finest_resolution"));
  EXPECT_EQ(Choose(StartScope::kMlp)->path, dir_ / "a.safetensors") << "its layers fit";
  WriteModel("c.safetensors", State(1'000, 9, SceneFlavor::kBlender));
  EXPECT_EQ(Choose()->path, dir_ / "c.safetensors");
}

TEST_F(StartChoiceTest, TablesOfOtherSizesFit) {
  Ngp(config_).log2_hashmap_size = 13;
  for (const int log2_entries : {12, 13, 14}) {
    TrainState state = State(log2_entries * 1'000'000, 5, SceneFlavor::kBlender);
    Ngp(state.config).log2_hashmap_size = log2_entries;
    const std::string name = std::to_string(log2_entries) + ".safetensors";
    WriteModel(name, state);
    EXPECT_EQ(Choose()->path, dir_ / name) << "the one with more samples";
  }
}

TEST_F(StartChoiceTest, WhatIsLeftToTheProgramFitsAnyStart) {
  TrainState finer = State(9'000'000, 5, SceneFlavor::kBlender);
  Ngp(finer.config).finest_resolution = 2048;
  WriteModel("a.safetensors", finer);
  EXPECT_FALSE(Choose().ok());
  Ngp(config_).finest_resolution = kAutoSetting;
  EXPECT_EQ(Choose()->path, dir_ / "a.safetensors");
}

TEST_F(StartChoiceTest, FolderWithoutModelsIsNotFound) {
  EXPECT_THAT(Choose(), StatusIs(StatusCode::kNotFound, "has no models"));
  EXPECT_THAT(ChooseStart(dir_ / "none", {config_, geometry_, 5}),
              StatusIs(StatusCode::kNotFound, "has no models"));
}

}  // namespace
}  // namespace nerf
