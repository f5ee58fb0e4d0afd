#include "server/rpc/services/start_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/messages/config_message.h"
#include "engine/base/method_list/method_descriptions.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kObject[] = "transforms_train.json", kColmap[] = "sparse/0/cameras.bin",
               kOneFile[] = "data/transforms.json";

class ChooseStartTest : public ::testing::Test {
 protected:
  // A scene whose cameras lie in `file`; `digest` tells captures apart.
  const SceneRecord& Scene(const std::string& file, const std::string& digest) {
    SceneRecord& scene = scenes_.emplace_back();
    scene.key = {"default", "s-" + std::to_string(scenes_.size())};
    scene.files = {{"images/a.png", {digest, 3}}, {file, {"cameras of " + digest, 5}}};
    scene.byte_size = 8;
    return scene;
  }
  // A model of a job on that scene; those added later are newer.
  StartCandidate& Add(const std::string& id, const SceneRecord& scene, double n_samples,
                      const std::vector<std::pair<std::string, std::string>>& settings = {},
                      const std::string& method = "ngp", uint32_t n_boxes = 1) {
    TrainConfig config = *DefaultConfig(method);
    for (const auto& [key, value] : settings)
      EXPECT_THAT(SetConfigField(key, value, &config), IsOk());
    Job& job = jobs_.emplace_back();
    job.training.config = ToMessage(config);
    job.progress.mutable_training()->set_step(100);
    job.progress.mutable_training()->set_samples(n_samples);
    ModelRecord& model = models_.emplace_back();
    model.key = {"default", id};
    model.step = 100;
    for (const TensorShape& tensor : FieldTensorShapes(config))
      model.tensors.push_back({tensor.name, tensor.dtype, tensor.shape});
    model.tensors.push_back({"occupancy.bits", "U8", {n_boxes, 128, 128, 16}});
    return *candidates_.insert(candidates_.begin(), StartCandidate{&model, &job, &scene});
  }
  StartAnswer Choose(const SceneRecord* scene) {
    return ChooseStart(wanted_, {.scene = scene, .candidates = candidates_});
  }
  std::string IdFor(const SceneRecord* scene) {
    const StartAnswer answer = Choose(scene);
    return answer.model == nullptr ? "" : answer.model->key.id;
  }

  TrainConfig wanted_;
  std::deque<SceneRecord> scenes_;
  std::deque<Job> jobs_;
  std::deque<ModelRecord> models_;
  std::vector<StartCandidate> candidates_;
};

TEST_F(ChooseStartTest, CaptureComesBeforeKindThenSamplesThenTheNewest) {
  const SceneRecord &lego = Scene(kObject, "lego"), &again = Scene(kObject, "lego"),
                    &mic = Scene(kObject, "mic");
  Add("little", mic, 1e6);
  EXPECT_EQ(IdFor(&lego), "little");
  Add("much", mic, 9e6);
  Add("some", mic, 3e6);
  EXPECT_EQ(IdFor(&lego), "much");
  Add("newer", mic, 9e6);
  EXPECT_EQ(IdFor(&lego), "newer");
  Add("same", again, 2e6);
  const StartAnswer answer = Choose(&lego);
  ASSERT_NE(answer.model, nullptr);
  EXPECT_EQ(answer.model->key.id, "same") << "another scene of the same files";
  EXPECT_EQ(answer.reason,
            "trained on the same capture with 2.0 M samples; of 5 models, 5 can be taken over");
}

TEST_F(ChooseStartTest, SamplesAreThoseOfTheModelsStep) {
  const SceneRecord &lego = Scene(kObject, "lego"), &mic = Scene(kObject, "mic");
  Add("early", mic, 40e6);
  models_.back().step = 25;
  Add("late", mic, 11e6);
  EXPECT_EQ(IdFor(&lego), "late");
  EXPECT_THAT(Choose(&lego).reason, HasSubstr("11.0 M samples"));
  models_.front().step = 50;
  EXPECT_THAT(Choose(&lego).reason, HasSubstr("20.0 M samples"));
  jobs_.front().progress.mutable_training()->set_step(0);  // nothing is known
  EXPECT_EQ(IdFor(&lego), "late");
}

TEST_F(ChooseStartTest, BoxesMustBeKnownToBeAsMany) {
  const SceneRecord &fox = Scene(kOneFile, "fox"), &other = Scene(kOneFile, "other"),
                    &church = Scene(kColmap, "church"), &tower = Scene(kColmap, "tower");
  Add("boxes-5", other, 1e6, {}, "ngp", 5);
  EXPECT_EQ(IdFor(&fox), "") << "one file may state any number of boxes";
  EXPECT_THAT(Choose(&fox).reason, HasSubstr("boxes-5: whether its scene has as many boxes"));
  EXPECT_EQ(IdFor(&other), "boxes-5");
  EXPECT_EQ(IdFor(nullptr), "");
  ASSERT_THAT(SetConfigField("boxes", "5", &wanted_), IsOk());
  EXPECT_EQ(IdFor(&fox), "boxes-5");
  EXPECT_EQ(IdFor(&church), "boxes-5") << "of another kind, but with as many boxes";
  EXPECT_THAT(Choose(&church).reason, HasSubstr("another kind"));
  ASSERT_THAT(SetConfigField("boxes", "4", &wanted_), IsOk());
  EXPECT_EQ(IdFor(&other), "");
  ASSERT_THAT(SetConfigField("boxes", "auto", &wanted_), IsOk());
  Add("tower", tower, 1e6, {}, "ngp", 5);
  EXPECT_EQ(IdFor(&church), "tower");
  Add("cut", tower, 2e6, {{"boxes", "2"}}, "ngp", 2);
  EXPECT_EQ(IdFor(&church), "tower") << "the other has fewer boxes than the scene gets";
}

TEST_F(ChooseStartTest, SettingsMustBeKnownToFit) {
  const SceneRecord& lego = Scene(kObject, "lego");
  Add("chosen", lego, 9e6);
  EXPECT_EQ(IdFor(&lego), "chosen");
  ASSERT_THAT(SetConfigField("log2_hashmap_size", "14", &wanted_), IsOk());
  EXPECT_EQ(IdFor(&lego), "chosen") << "tables grow and shrink";
  ASSERT_THAT(SetConfigField("finest_resolution", "512", &wanted_), IsOk());
  EXPECT_EQ(IdFor(&lego), "") << "the pictures may have called for another";
  Add("named", lego, 1e6, {{"finest_resolution", "512"}});
  EXPECT_EQ(IdFor(&lego), "named");
  wanted_ = TrainConfig();
  EXPECT_EQ(IdFor(&lego), "chosen");
  ASSERT_THAT(SetConfigField("n_features_per_level", "2", &wanted_), IsOk());
  EXPECT_THAT(Choose(&lego).reason, HasSubstr("field.hash_table"));
  wanted_ = *DefaultConfig("voxels");
  EXPECT_THAT(Choose(&lego).reason, HasSubstr("named: trained by method ngp; chosen: trained by"));
}

TEST_F(ChooseStartTest, WhatIsNotKnownOfAModelLeavesItOut) {
  const SceneRecord& lego = Scene(kObject, "lego");
  Add("orphan", lego, 9e6).job = nullptr;
  Add("no-scene", lego, 9e6).scene = nullptr;
  Add("other-version", lego, 9e6);
  (*jobs_.back().training.config.mutable_settings())["setting_of_tomorrow"] = "1";
  Add("other-method", lego, 9e6);
  jobs_.back().training.config.set_method("gaussians");
  const StartAnswer answer = Choose(&lego);
  EXPECT_EQ(answer.model, nullptr);
  EXPECT_THAT(answer.reason, HasSubstr("from scratch: of 4 models, none can be taken over: "));
  EXPECT_THAT(answer.reason, HasSubstr("setting_of_tomorrow"));
  EXPECT_THAT(answer.reason, HasSubstr("no-scene: whether"));
  EXPECT_THAT(answer.reason, Not(HasSubstr("orphan"))) << "three reasons are enough";
  Add("known", lego, 1e6);
  EXPECT_EQ(IdFor(&lego), "known");
}

// A scene that photographs were added to holds all of the old one's, and where it lies.
TEST_F(ChooseStartTest, SceneWithMorePhotographsContinuesTheModelOfTheOldOnes) {
  const SceneRecord &fox = Scene(kOneFile, "fox"), &other = Scene(kOneFile, "other");
  SceneRecord more = Scene(kOneFile, "fox");
  more.files = {{"data/transforms.json", {"more cameras", 5}},
                {"images/a.png", {"fox", 3}},
                {"images/b.png", {"new", 3}},
                {"placement.json", {"place", 3}}};
  more.byte_size = 14;
  Add("other", other, 9e6, {}, "ngp", 5);
  const auto continued = [&](const SceneRecord* scene, bool grows = false) {
    const StartAnswer answer = ChooseStart(wanted_, {scene, true, grows, candidates_});
    EXPECT_TRUE(answer.model != nullptr || answer.reason.empty());
    return answer.model == nullptr ? "" : answer.model->key.id;
  };
  EXPECT_EQ(continued(&more), "");
  Add("old", fox, 1e6, {}, "ngp", 5);
  EXPECT_EQ(continued(&more), "old");
  EXPECT_EQ(IdFor(&more), "old") << "of the same capture";
  EXPECT_EQ(continued(&fox), "") << "the same scene again starts from scratch";
  EXPECT_EQ(continued(&fox, true), "old") << "its pose job is still to add to it";
  EXPECT_EQ(continued(nullptr), "");
  more.files[1].blob.sha256 = "changed";
  EXPECT_EQ(continued(&more), "");
  more.files[1].blob.sha256 = "fox";
  more.files.pop_back();
  EXPECT_EQ(continued(&more), "") << "nothing says that it lies where the old one did";
}

// Shapes are the worker's word.
TEST_F(ChooseStartTest, OddTensorsAreNoStart) {
  const SceneRecord &lego = Scene(kObject, "lego"), &fox = Scene(kOneFile, "fox");
  ASSERT_THAT(SetConfigField("boxes", "1", &wanted_), IsOk());
  for (const std::vector<uint32_t>& shape :
       {std::vector<uint32_t>{}, {0}, {9, 1}, {0xffffffff, 1, 1, 1}}) {
    candidates_.clear();
    Add("odd", lego, 1e6);
    models_.back().tensors.back().shape = shape;
    EXPECT_EQ(IdFor(&fox), "");
  }
  candidates_.clear();
  wanted_ = TrainConfig();
  Add("none", lego, 1e6);
  models_.back().tensors.clear();
  EXPECT_EQ(IdFor(&lego), "");
  EXPECT_THAT(Choose(&lego).reason, HasSubstr("is missing"));
}

TEST_F(ChooseStartTest, WithoutModelsItSaysSo) {
  const StartAnswer answer = Choose(&Scene(kObject, "lego"));
  EXPECT_EQ(answer.model, nullptr);
  EXPECT_EQ(answer.reason, "from scratch: the project has no models");
}

}  // namespace
}  // namespace nerf
