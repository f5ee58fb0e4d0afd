#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/method_list/method_descriptions.h"
#include "engine/methods/registry.h"
#include "engine/program/session/loaded_model.h"
#include "engine/program/session/training_methods.h"
#include "engine/program/session/training_session.h"
#include "tests/engine/program/commands/ball_dataset.h"
#include "tests/engine/program/commands/trained_files.h"
#include "tests/testing/constant_color/constant_color_method.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using ::absl::StatusCode;

// The one line that a method needs besides its folder.
const bool kAdded = (AddMethod(&ConstantColorMethod()), true);

class MethodSeamTest : public ::testing::Test {
 protected:
  MethodSeamTest() { WriteBallDataset(dataset_); }

  static TrainConfig Config() {
    TrainConfig config = *DefaultConfig("constant-color");
    config.budget = {BudgetKind::kSteps, 50};
    return config;
  }

  void Train(const TrainRequest& request, std::optional<uint32_t> stop_after = {}) {
    TrainFiles(request, &pool_, checkpoint_, model_, stop_after);
  }
  ViewPicture Rendered(const std::string& path) { return RenderFile(path, device_.get()); }

  TempDir dir_;
  const std::string dataset_ = dir_ / "ball";
  const std::string checkpoint_ = dir_ / "c.safetensors", model_ = dir_ / "m.safetensors";
  ThreadPool pool_{1};
  const std::unique_ptr<RenderDevice> device_ = NewCpuRenderDevice(&pool_);
};

TEST_F(MethodSeamTest, AMethodOfTheTestsTrainsSavesLoadsAndRenders) {
  ASSERT_TRUE(kAdded);
  Train({dataset_, Config(), "", ""});
  const ViewPicture from_model = Rendered(model_), from_checkpoint = Rendered(checkpoint_);
  EXPECT_EQ(from_model.rgba.pixels, from_checkpoint.rgba.pixels);
  // One color everywhere, which moved from its start at gray.
  const std::vector<uint8_t>& pixels = from_model.rgba.pixels;
  ASSERT_GE(pixels.size(), 4u);
  for (size_t i = 4; i < pixels.size(); ++i) ASSERT_EQ(pixels[i], pixels[i % 4]);
  EXPECT_EQ(pixels[3], 255);
  EXPECT_NE(pixels[0], 128);
}

TEST_F(MethodSeamTest, ItResumesToTheSameBytesAndStartsFromItsModel) {
  Train({dataset_, Config(), "", ""});
  const std::string whole = SerializeTensorFile(*ReadTensorFile(checkpoint_));
  Train({dataset_, Config(), "", ""}, 20);
  Train({dataset_, Config(), checkpoint_, ""});
  EXPECT_EQ(SerializeTensorFile(*ReadTensorFile(checkpoint_)), whole);
  Train({dataset_, Config(), "", model_});
}

TEST_F(MethodSeamTest, ItIsListedAndRefusesWhatItDoesNotHonorByName) {
  EXPECT_THAT(TrainingMethods("cpu"), testing::Contains("constant-color"));
  EXPECT_THAT(TrainingMethods("cuda:0"), testing::Not(testing::Contains("constant-color")));
  TrainConfig config = Config();
  EXPECT_THAT(SetConfigField("pixels", "8", &config), IsOk());
  EXPECT_THAT(SetConfigField("log2_hashmap_size", "14", &config),
              StatusIs(StatusCode::kInvalidArgument, "constant-color has no such setting"));
  EXPECT_THAT(CheckDeviceHonors(config, "cuda:0"),
              StatusIs(StatusCode::kInvalidArgument, "constant-color"));
  TrainConfig ngp;
  EXPECT_THAT(SetConfigField("pixels", "8", &ngp),
              StatusIs(StatusCode::kInvalidArgument, "ngp has no such setting"));
}

}  // namespace
}  // namespace nerf
