#include "engine/field/files/capture_views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using absl::StatusCode;
using Metadata = std::map<std::string, std::string>;

std::vector<CaptureView> Views() {
  CaptureView first{"images/a \"quoted\" ü.jpg", {}};
  first.camera.width = 640;
  first.camera.height = 480;
  first.camera.fl_x = 500.125f, first.camera.fl_y = 501.3f;
  first.camera.cx = 320.1f, first.camera.cy = 239.9f;
  first.camera.camera_to_world.m[0][3] = 1.0f / 3;
  CaptureView second = first;
  second.file = "b.png";
  second.camera.camera_to_world.m[2][3] = -7e-9f;
  CaptureView third = first;
  third.camera.lens = LensModel::kFisheye;
  third.camera.k4 = 0.01f;
  third.camera.k1 = 0.0578421f;
  return {first, second, third};
}

Metadata StoredViews() {
  Metadata metadata;
  StoreCaptureViews("capture", Views(), &metadata);
  return metadata;
}

absl::Status Load(const Metadata& metadata) {
  std::vector<CaptureView> views;
  return LoadCaptureViews("capture", metadata, &views);
}

TEST(CaptureViewsTest, ViewsComeBackBitForBit) {
  std::vector<CaptureView> views;
  ASSERT_THAT(LoadCaptureViews("capture", StoredViews(), &views), IsOk());
  EXPECT_EQ(views, Views());
  Metadata again;
  StoreCaptureViews("capture", views, &again);
  EXPECT_EQ(again, StoredViews());
}

TEST(CaptureViewsTest, ListsLieSideBySide) {
  Metadata metadata = StoredViews();
  StoreCaptureViews("test", {Views()[1]}, &metadata);
  std::vector<CaptureView> views;
  ASSERT_THAT(LoadCaptureViews("test", metadata, &views), IsOk());
  EXPECT_EQ(views, std::vector<CaptureView>({Views()[1]}));
  ASSERT_THAT(LoadCaptureViews("capture", metadata, &views), IsOk());
  EXPECT_EQ(views, Views());
  metadata["test.views"] = "1";
  EXPECT_THAT(LoadCaptureViews("test", metadata, &views),
              StatusIs(StatusCode::kInvalidArgument, "test.views"));
}

TEST(CaptureViewsTest, OlderFilesHaveNone) {
  std::vector<CaptureView> views = Views();
  ASSERT_THAT(LoadCaptureViews("capture", {}, &views), IsOk());
  EXPECT_TRUE(views.empty());
  Metadata metadata;
  StoreCaptureViews("capture", {}, &metadata);
  EXPECT_TRUE(metadata.empty());
}

TEST(CaptureViewsTest, MissingKeysAreNamed) {
  for (const char* key : {"capture.lenses", "capture.views"}) {
    Metadata metadata = StoredViews();
    metadata.erase(key);
    EXPECT_THAT(Load(metadata), StatusIs(StatusCode::kInvalidArgument, key));
  }
}

TEST(CaptureViewsTest, WrongValuesAreNamed) {
  const auto with = [](const char* key, const std::string& value) {
    Metadata metadata = StoredViews();
    metadata[key] = value;
    return Load(metadata);
  };
  const auto wrong = [](const char* key) { return StatusIs(StatusCode::kInvalidArgument, key); };
  EXPECT_THAT(with("capture.files", "["), wrong("capture.files"));
  EXPECT_THAT(with("capture.files", "{}"), wrong("capture.files"));
  EXPECT_THAT(with("capture.files", "[1, 2, 3]"), wrong("capture.files"));
  EXPECT_THAT(with("capture.files", "[\"one\"]"), wrong("capture.views"));
  EXPECT_THAT(with("capture.lenses", ""), wrong("capture.views"));
  EXPECT_THAT(with("capture.lenses", "1 2 3"), wrong("capture.lenses"));
  EXPECT_THAT(with("capture.lenses", "0 480 0 1 1 0 0 0 0 0 0 0 0 0 0"), wrong("capture.lenses"));
  EXPECT_THAT(with("capture.lenses", "1e9 480 0 1 1 0 0 0 0 0 0 0 0 0 0"), wrong("capture.lenses"));
  EXPECT_THAT(with("capture.lenses", "640 480 0 0 1 0 0 0 0 0 0 0 0 0 0"), wrong("capture.lenses"));
  EXPECT_THAT(with("capture.lenses", "640 480 0 nan 1 0 0 0 0 0 0 0 0 0 0"),
              wrong("capture.lenses"));
  EXPECT_THAT(with("capture.lenses", "640 480 6 1 1 0 0 0 0 0 0 0 0 0 0"), wrong("capture.lenses"));
  EXPECT_THAT(with("capture.lenses", "640 480 0.5 1 1 0 0 0 0 0 0 0 0 0 0"),
              wrong("capture.lenses"));
  EXPECT_THAT(with("capture.lenses", "640  480"), wrong("capture.lenses"));
  std::string views = StoredViews()["capture.views"];
  EXPECT_THAT(with("capture.views", "9" + views.substr(1)), wrong("capture.views"));
  EXPECT_THAT(with("capture.views", "-1" + views.substr(1)), wrong("capture.views"));
  EXPECT_THAT(with("capture.views", "inf" + views.substr(1)), wrong("capture.views"));
  EXPECT_THAT(with("capture.views", views + " 0"), wrong("capture.views"));
  EXPECT_THAT(with("capture.views", views.substr(0, 1) + " 5" + views.substr(3)),
              wrong("capture.views"));
}

TEST(CaptureViewsTest, OfManyViewsEvenlySpacedOnesAreKept) {
  std::vector<View> views(5000);
  for (size_t i = 0; i < views.size(); ++i) views[i].file = std::to_string(i);
  const std::vector<CaptureView> kept = CaptureViewsOf(views);
  ASSERT_EQ(kept.size(), kMaxCaptureViews);
  EXPECT_EQ(kept[0].file, "0");
  EXPECT_EQ(kept[1000].file, "2500");
  EXPECT_TRUE(CaptureViewsOf({}).empty());
}

}  // namespace
}  // namespace nerf
