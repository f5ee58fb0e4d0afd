// Polycam's raw exports, and exports of other programs that are named.
#include "engine/scene/read/polycam_reader.h"

#include "absl/strings/str_cat.h"
#include "engine/scene/read/other_exports.h"
#include "engine/scene/read/scene_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/scene/scene_fixture.h"

namespace nerf {
namespace {

using ::testing::HasSubstr;

std::string PolycamCamera(double x, const std::string& more = "") {
  return absl::StrCat(
      R"({"fx":50,"fy":51,"cx":20,"cy":15,"width":40,"height":30,"blur_score":NaN,)",
      R"("t_00":1,"t_01":0,"t_02":0,"t_03":)", x,
      R"(,"t_10":0,"t_11":1,"t_12":0,"t_13":0.5,"t_20":0,"t_21":0,"t_22":1,)", R"("t_23":4)", more,
      "}");
}

void WritePolycam(const TempFolder& folder, const std::string& prefix = "") {
  for (int i = 0; i < 5; ++i) {
    folder.Write(absl::StrCat("keyframes/", prefix, "images/10", i, ".jpg"), MakeJpeg(40, 30));
    folder.Write(absl::StrCat("keyframes/", prefix, "cameras/10", i, ".json"), PolycamCamera(i));
  }
}

TEST(PolycamReaderTest, KeyframesAreRead) {
  const TempFolder folder;
  WritePolycam(folder);
  folder.Write("keyframes/cameras/._100.json", "x");
  EXPECT_TRUE(HasSceneFiles(folder.path()));
  const SceneDescription scene = DescribeScene(folder.path());
  ASSERT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  EXPECT_EQ(scene.geometry.flavor, SceneFlavor::kNerfstudio);
  EXPECT_EQ(scene.train.size() + scene.test.size(), 5u);
  EXPECT_EQ(scene.list_files.size(), 5u) << "they are uploaded, too";
  EXPECT_EQ(scene.train[0].file, "keyframes/images/101.jpg");
  EXPECT_EQ(scene.train[0].camera.fl_y, 51);
}

TEST(PolycamReaderTest, AdjustedCamerasComeFirst) {
  const TempFolder folder;
  WritePolycam(folder);
  WritePolycam(folder, "corrected_");
  const SceneDescription scene = DescribeScene(folder.path());
  ASSERT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  EXPECT_EQ(scene.source, "keyframes/corrected_cameras (Polycam)");
  EXPECT_EQ(scene.train[0].file, "keyframes/corrected_images/101.jpg");
}

TEST(PolycamReaderTest, MissingSizesAreThoseOfTheFirstCamerasOrThePictures) {
  for (const bool has_first : {false, true}) {
    const TempFolder folder;
    WritePolycam(folder, "corrected_");
    if (has_first) WritePolycam(folder);
    for (int i = 0; i < 5; ++i) {
      folder.Write(absl::StrCat("keyframes/corrected_cameras/10", i, ".json"),
                   PolycamCamera(i, R"(,"width":null,"height":null)"));
    }
    const SceneDescription scene = DescribeScene(folder.path());
    ASSERT_TRUE(scene.ok()) << SummaryOf(scene.problems);
    EXPECT_EQ(scene.train[0].camera.fl_y, 51);
    EXPECT_EQ(scene.list_files.size(), has_first ? 10u : 5u) << "they are uploaded, too";
  }
}

TEST(PolycamReaderTest, HostileCamerasAreProblemsThatNameFileAndField) {
  struct Case {
    std::string camera;
    const char* said;
  };
  for (const Case& c : {Case{"", "keyframes/cameras/103.json: line 1: not valid JSON"},
                        {"[]", "103.json: must be a JSON object"},
                        {"{}", "103.json: fx: is missing"},
                        {PolycamCamera(0, R"(,"t_11":"x")"), "must be a number"},
                        {PolycamCamera(0, R"(,"t_11":0)"), "not a rotation"},
                        {PolycamCamera(0, R"(,"fx":-1)"), "-1 must be greater than 0"},
                        {PolycamCamera(0, R"(,"width":400)"), "another aspect ratio"},
                        {PolycamCamera(0, R"(,"t_03":null)"), "t_03: is missing"}}) {
    const TempFolder folder;
    WritePolycam(folder);
    folder.Write("keyframes/cameras/103.json", c.camera);
    const SceneDescription scene = DescribeScene(folder.path());
    EXPECT_FALSE(scene.ok());
    EXPECT_THAT(SummaryOf(scene.problems), HasSubstr(c.said));
  }
  const TempFolder none;
  none.Write("keyframes/cameras/notes.txt", "x");
  EXPECT_THAT(SummaryOf(DescribeScene(none.path()).problems), HasSubstr("holds no camera"));
  const TempFolder missing;
  WritePolycam(missing);
  missing.Write("keyframes/cameras/200.json", PolycamCamera(1));
  EXPECT_EQ(DescribeScene(missing.path()).n_missing, 1);
}

TEST(OtherExportsTest, ProgramAndRemedyAreNamed) {
  struct Case {
    const char *file, *content, *said;
  };
  for (const Case& c :
       {Case{"cameras.xml", "<?xml version=\"1.0\"?>\n<document version=\"2.0\">\n  <chunk>",
             "cameras.xml is of Agisoft Metashape: export the cameras in COLMAP's format"},
        {"cameras.csv", "#name,x,y,alt,heading,pitch,roll\n", "is of RealityCapture"},
        {"images/a.xmp", "<x:xmpmeta><rdf:Description xcr:Version=\"3\">",
         "images/a.xmp is of RealityCapture"},
        {"block.xml", "<BlocksExchange version=\"2.1\">", "BlocksExchange"},
        {"sfm/bundle.out", "# Bundle file v0.3\n", "of Bundler"},
        {"a.r3d", "PK", "Record3D"},
        {"a.zip", "PK", "a.zip is an archive: unpack it"},
        {"odm_report/stats.json", "{}", "OpenDroneMap"},
        {"a/b/cameras.xml", "<document><chunk>", ""},
        {"EXR_RGBD/metadata", "{}", "Record3D"},
        {"metadata", "{}", ""},
        {"opensfm/reconstruction.json", "[]", "OpenDroneMap or OpenSfM"},
        {"keyframes/depth/1.png", "", "Polycam without cameras"},
        {"notes.csv", "name,price\n", ""},
        {"feed.xml", "<rss></rss>", ""}}) {
    const TempFolder folder;
    folder.Write(c.file, c.content);
    folder.Write("a.jpg", MakeJpeg(40, 30));
    const std::string said = OtherExport(SceneFolder::Open(folder.path()).value());
    EXPECT_EQ(said.empty(), *c.said == '\0') << c.file;
    EXPECT_THAT(said, HasSubstr(c.said));
    if (!said.empty()) {
      EXPECT_EQ(DescribeScene(folder.path()).problems[0].message, said);
    }
  }
}

}  // namespace
}  // namespace nerf
