#include "engine/program/written_views/scene_match.h"

#include <gtest/gtest.h>

#include "fmt/format.h"

namespace nerf {
namespace {

Scene SceneOf(const char* pattern, int n, float x) {
  Scene scene;
  for (int i = 0; i < n; ++i) {
    View view;
    view.file = fmt::format(fmt::runtime(pattern), i);
    view.camera.camera_to_world = {
        {{1, 0, 0, x + static_cast<float>(i)}, {0, 1, 0, 0}, {0, 0, 1, 0}}};
    (i % 2 == 0 ? scene.train : scene.test).push_back(view);
  }
  return scene;
}

TEST(SceneMatchTest, PicturesAndTheirCamerasTellScenesApart) {
  const Scene scene = SceneOf("{}.png", 10, 0);
  TrainState model;
  model.geometry.box = {{-1, -1, -1}, {1, 1, 1}};
  EXPECT_EQ(OtherSceneText(model, scene), "") << "an older model";
  model.capture = CaptureViewsOf(scene.train);
  ASSERT_EQ(model.capture.size(), 5u);
  EXPECT_EQ(OtherSceneText(model, scene), "");
  EXPECT_EQ(OtherSceneText(model, SceneOf("{}.png", 20, 0.05f)), "") << "more pictures";
  EXPECT_EQ(OtherSceneText(model, SceneOf("{}.jpg", 10, 0)),
            "it has 0 of the 5 pictures that the model was trained on");
  EXPECT_EQ(OtherSceneText(model, SceneOf("{}.png", 4, 0)),
            "it has 2 of the 5 pictures that the model was trained on");
  EXPECT_EQ(OtherSceneText(model, SceneOf("{}.png", 10, 1)),
            "5 of 5 pictures have other cameras than in the training");
}

TEST(ComparedQualityTest, FocalLengthsAndPlacesAreComparedWithTheTraining) {
  Scene scene = SceneOf("{}.png", 6, 0);
  for (auto* views : {&scene.train, &scene.test}) {
    for (View& view : *views) {
      view.camera.width = 80, view.camera.height = 60;
      view.camera.fl_x = view.camera.fl_y = 100;
    }
  }
  TrainState model;
  model.n_trained = 5'000'000;
  EXPECT_EQ(ComparedQuality(model, {}, 5, "d").focal_ratio, 0);
  const std::vector<Camera> as_trained = {scene.test[0].camera};
  EXPECT_EQ(ComparedQuality(model, as_trained, 5, "d").focal_ratio, 0) << "nothing is stored";
  model.capture = CaptureViewsOf(scene.train);
  TrainedQuality quality = ComparedQuality(model, as_trained, 5, "a b");
  EXPECT_NEAR(quality.focal_ratio, 1, 1e-6);
  EXPECT_EQ(quality.n_far_views, 0u);
  EXPECT_EQ(quality.n_views, 1u);
  EXPECT_EQ(quality.n_train_views, 3u);
  EXPECT_EQ(quality.samples, 5e6);
  EXPECT_EQ(quality.check_command, "nerf-engine check 'a b'");
  Camera turned = as_trained[0];
  std::swap(turned.width, turned.height);
  Camera wrong = as_trained[0];
  wrong.fl_x = wrong.fl_y = 50;
  wrong.camera_to_world.m[0][3] = 1000;
  EXPECT_NEAR(ComparedQuality(model, std::vector<Camera>{turned}, 5, "d").focal_ratio, 1, 1e-6);
  quality = ComparedQuality(model, std::vector<Camera>{wrong, wrong, turned}, 5, "d");
  EXPECT_NEAR(quality.focal_ratio, 0.5, 1e-6);
  EXPECT_EQ(quality.n_far_views, 2u);
  wrong.lens = LensModel::kEquirectangular;
  EXPECT_EQ(ComparedQuality(model, std::vector<Camera>{wrong}, 5, "d").focal_ratio, 0);
}

}  // namespace
}  // namespace nerf
