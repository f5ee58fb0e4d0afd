#include "engine/scene/read/capture_app_reader.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/scene/read/scene_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/scene/scene_fixture.h"

namespace nerf {
namespace {

using ::testing::HasSubstr;

std::string ScannerCamera(int i, const std::string& more = "") {
  return absl::StrCat("{\"cameraPoseARFrame\":[1,0,0,", i,
                      ",0,1,0,2,0,0,1,3,0,0,0,1],\"intrinsics\":[50,0,20,0,51,15,0,0,1]", more,
                      "}");
}

void WriteScanner(const TempFolder& folder) {
  for (int i = 0; i < 5; ++i) {
    folder.Write(absl::StrFormat("frame_%05d.jpg", i), MakeJpeg(40, 30));
    folder.Write(absl::StrFormat("frame_%05d.json", i), ScannerCamera(i));
  }
}

std::string SplatCamera(int i, const std::string& more = "") {
  return absl::StrCat(
      "{\"id\":", i, ",\"img_name\":\"p", i, "\",\"width\":40,\"height\":30,\"position\":[", i,
      ",2,3],\"rotation\":[[1,0,0],[0,1,0],[0,0,1]],\"fx\":50,\"fy\":51", more, "}");
}

TEST(CaptureAppReaderTest, FramesOf3dScannerAppAreRead) {
  const TempFolder folder;
  WriteScanner(folder);
  EXPECT_TRUE(HasSceneFiles(folder.path()));
  const SceneDescription scene = DescribeScene(folder.path());
  ASSERT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  EXPECT_EQ(scene.train.size() + scene.test.size(), 5u);
  EXPECT_EQ(scene.list_files.size(), 5u) << "they are uploaded, too";
  EXPECT_EQ(scene.train[0].camera.fl_y, 51);
  EXPECT_EQ(scene.train[0].camera.cy, 15);
  const SceneFolder opened = *SceneFolder::Open(folder.path());
  Problems problems;
  const ListedViews listed = ReadCaptureApp(opened, &problems);
  ASSERT_EQ(listed.views.size(), 5u);
  EXPECT_EQ(listed.views[4].pose.m[0][3], 4);
  EXPECT_EQ(listed.views[4].pose.m[2][2], 1) << "OpenGL's axes";
}

TEST(CaptureAppReaderTest, FramesWithoutAPoseAreLeftOut) {
  const TempFolder folder;
  WriteScanner(folder);
  folder.Write("frame_00002.json", "{\"intrinsics\":[50,0,20,0,51,15,0,0,1]}");
  const SceneDescription scene = DescribeScene(folder.path());
  ASSERT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  EXPECT_EQ(scene.train.size() + scene.test.size(), 4u);
}

TEST(CaptureAppReaderTest, CamerasOfGaussianSplattingAreReadWithOpenCvAxes) {
  const TempFolder folder;
  std::string cameras;
  for (int i = 0; i < 5; ++i) {
    folder.Write(absl::StrCat(i < 3 ? "images/p" : "p", i, ".png"), MakePng(40, 30));
    absl::StrAppend(&cameras, i == 0 ? "" : ",", SplatCamera(i));
  }
  folder.Write("cameras.json", "[" + cameras + "]");
  const SceneDescription scene = DescribeScene(folder.path());
  ASSERT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  EXPECT_EQ(scene.train.size() + scene.test.size(), 5u);
  Problems problems;
  const ListedViews listed = ReadCaptureApp(*SceneFolder::Open(folder.path()), &problems);
  ASSERT_EQ(listed.views.size(), 5u);
  EXPECT_EQ(listed.views[1].pose.m[0][3], 1);
  EXPECT_EQ(listed.views[1].pose.m[1][1], -1);
  EXPECT_EQ(listed.views[1].pose.m[2][2], -1) << "it looks along +z";
}

TEST(CaptureAppReaderTest, HostileCamerasAreProblemsThatNameFileAndField) {
  struct Case {
    std::string file, content;
    const char* said;
  };
  for (const Case& c : {
           Case{"frame_00003.json", "", "frame_00003.json: line 1: not valid JSON"},
           {"frame_00003.json", "{\"cameraPoseARFrame\":[1]}",
            "frame_00003.json: cameraPoseARFrame: must have 16 numbers"},
           {"frame_00003.json", ScannerCamera(0, ",\"intrinsics\":[1]"),
            "intrinsics: must have 9 numbers"},
           {"frame_00003.json", ScannerCamera(0, ",\"intrinsics\":[-1,0,0,0,0,0,0,0,0]"), "fl_x"},
           {"frame_00003.json",
            ScannerCamera(0, ",\"cameraPoseARFrame\":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,\"x\"]"),
            "must be a number"},
       }) {
    const TempFolder folder;
    WriteScanner(folder);
    folder.Write(c.file, c.content);
    EXPECT_THAT(SummaryOf(DescribeScene(folder.path()).problems), HasSubstr(c.said));
  }
  for (const auto& [cameras, said] :
       {std::pair<std::string, const char*>{"", "[0].rotation: must have 9 numbers"},
        {"]", "not valid JSON"},
        {",\"position\":[1,2]", "[0].position: must have 3 numbers"},
        {",\"position\":[1,2,1e300]", "coordinates up to 1e9"},
        {",\"img_name\":3", "[0].img_name: must be the name"},
        {",\"img_name\":\"../../etc/passwd\"", "leaves the data set's folder"},
        {",\"fx\":\"NaN\"", "fl_x"}}) {
    const TempFolder folder;
    folder.Write("p0.png", MakePng(40, 30));
    const std::string broken = cameras.empty() ? ",\"rotation\":[[1,0],[0]]" : cameras;
    folder.Write("cameras.json", "[" + SplatCamera(0, broken) + "]");
    EXPECT_THAT(SummaryOf(DescribeScene(folder.path()).problems), HasSubstr(said)) << cameras;
  }
}

}  // namespace
}  // namespace nerf
