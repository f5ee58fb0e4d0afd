#include "engine/tool/scene_match.h"

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

}  // namespace
}  // namespace nerf
