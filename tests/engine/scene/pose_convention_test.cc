#include "engine/scene/judge/pose_convention.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/scene/read/scene_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/scene/looking_at.h"
#include "tests/engine/scene/scene_fixture.h"

namespace nerf {
namespace {

using ::testing::HasSubstr;

// Two rings of different heights around a place that is not the origin.
std::vector<Pose> Capture(double degrees = 360) {
  std::vector<Pose> poses;
  for (int i = 0; i < 24; ++i) {
    const double angle = degrees * 0.0174533 * i / 24, height = i % 2 == 0 ? 0.5 : 2;
    poses.push_back(LookingAt({1 + 3 * std::cos(angle), 2 + 3 * std::sin(angle), height},
                              {1, 2, 0.3 + 0.01 * i}));
  }
  return poses;
}

std::vector<Pose> OpenCv(std::vector<Pose> poses) {
  for (Pose& pose : poses) {
    for (auto& row : pose.m) row[1] = -row[1], row[2] = -row[2];
  }
  return poses;
}

std::vector<Pose> Inverses(const std::vector<Pose>& poses) {
  std::vector<Pose> inverses;
  for (const Pose& pose : poses) {
    Pose& inverse = inverses.emplace_back();
    for (int i = 0; i < 3; ++i) {
      inverse.m[i][3] = 0;
      for (int j = 0; j < 3; ++j) {
        inverse.m[i][j] = pose.m[j][i];
        inverse.m[i][3] -= pose.m[j][i] * pose.m[j][3];
      }
    }
  }
  return inverses;
}

void ExpectSame(const std::vector<Pose>& a, const std::vector<Pose>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t k = 0; k < a.size(); ++k) {
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 4; ++j) EXPECT_NEAR(a[k].m[i][j], b[k].m[i][j], 1e-9) << k;
    }
  }
}

TEST(PoseConventionTest, LikelyConventionIsNamedAndReadsTheSameCameras) {
  for (const double degrees : {360.0, 100.0}) {
    const std::vector<Pose> poses = Capture(degrees);
    struct Case {
      std::vector<Pose> given;
      PoseConvention right;
      const char* said;
    };
    for (const Case& c :
         {Case{OpenCv(poses), PoseConvention::kOpenCv, "OpenCV's axes, 100% do: --poses opencv"},
          {Inverses(poses), PoseConvention::kWorldToCamera,
           "world to camera, 100% do: --poses w2c"},
          {Inverses(OpenCv(poses)), PoseConvention::kWorldToCamera, "--poses w2c reads them so"}}) {
      EXPECT_THAT(PoseConventionWarning(PoseConvention::kOpenGl, c.given), HasSubstr(c.said));
      ExpectSame(PosesReadAs(c.right, c.given), poses);
      EXPECT_EQ(PoseConventionWarning(c.right, c.given), "");
    }
    std::vector<Pose> transposed = Inverses(poses);
    for (size_t i = 0; i < poses.size(); ++i) {
      for (int j = 0; j < 3; ++j) transposed[i].m[j][3] = poses[i].m[j][3];
    }
    if (degrees == 360) {
      EXPECT_THAT(PoseConventionWarning(PoseConvention::kOpenGl, transposed),
                  HasSubstr("with their rotations transposed, 100% do"));
    }
    EXPECT_THAT(PoseConventionWarning(PoseConvention::kOpenCv, poses),
                HasSubstr("OpenGL's axes, 100% do: --poses opengl"));
  }
}

TEST(PoseConventionTest, CapturesThatMayBeRightGetNoWarning) {
  EXPECT_EQ(PoseConventionWarning(PoseConvention::kOpenGl, Capture()), "");
  EXPECT_EQ(PoseConventionWarning(PoseConvention::kOpenGl, Capture(20)), "");
  EXPECT_EQ(PoseConventionWarning(PoseConvention::kOpenGl, {}), "");
  const std::vector<Pose> all = OpenCv(Capture());
  EXPECT_EQ(PoseConventionWarning(PoseConvention::kOpenGl, {all.begin(), all.begin() + 3}), "")
      << "too few to tell";
  std::vector<Pose> forward, along;
  for (int i = 0; i < 20; ++i) {
    const double x = 0.1 * (i % 5), z = 0.1 * (i / 5);
    forward.push_back(LookingAt({x, 0, z}, {x, 10, z}));
    // Down a street: cameras that pass what they look at.
    along.push_back(LookingAt({i * 1.0, 0, 1}, {i + 5.0, i % 2 == 0 ? 3.0 : -3.0, 1}));
  }
  EXPECT_EQ(PoseConventionWarning(PoseConvention::kOpenGl, forward), "") << "parallel axes";
  EXPECT_EQ(PoseConventionWarning(PoseConvention::kOpenGl, along), "");
}

std::string Transforms(const std::vector<Pose>& poses) {
  std::string frames;
  for (size_t k = 0; k < poses.size(); ++k) {
    absl::StrAppend(&frames, k == 0 ? "" : ",", R"({"file_path":")", k,
                    R"(.png","transform_matrix":[)");
    for (const auto& row : poses[k].m)
      absl::StrAppendFormat(&frames, "[%.12g,%.12g,%.12g,%.12g],", row[0], row[1], row[2], row[3]);
    frames += "[0,0,0,1]]}";
  }
  return absl::StrCat(R"({"fl_x":20,"w":20,"h":20,"frames":[)", frames, "]}");
}

TEST(PoseConventionTest, DataSetsAreReadAsTheUserSays) {
  const TempFolder folder;
  for (int i = 0; i < 24; ++i) folder.Write(absl::StrCat(i, ".png"), MakePng(20, 20));
  folder.Write("transforms.json", Transforms(Capture()));
  const SceneDescription right = DescribeScene(folder.path());
  EXPECT_TRUE(right.warnings.empty()) << right.warnings[0];
  folder.Write("transforms.json", Transforms(Inverses(OpenCv(Capture()))));
  const SceneDescription wrong = DescribeScene(folder.path());
  EXPECT_TRUE(wrong.ok()) << "a warning, no error";
  EXPECT_THAT(wrong.warnings, ::testing::Contains(HasSubstr("--poses w2c reads them so")));
  SceneOptions options;
  options.reading.poses = PoseConvention::kWorldToCamera;
  const SceneDescription asked = DescribeScene(folder.path(), options);
  EXPECT_TRUE(asked.warnings.empty()) << asked.warnings[0];
  ASSERT_EQ(asked.train.size(), right.train.size());
  for (size_t i = 0; i < right.train.size(); ++i) {
    const Mat34 &a = asked.train[i].camera.camera_to_world,
                &b = right.train[i].camera.camera_to_world;
    for (int column = 0; column < 4; ++column)
      EXPECT_LT(Norm(a.Column(column) - b.Column(column)), 1e-5f);
  }
}

TEST(PoseConventionTest, ColmapsPosesAreWhatTheyAre) {
  const TempFolder folder;
  folder.Write("images/a.png", MakePng(40, 30));
  folder.Write("sparse/0/cameras.txt", "1 PINHOLE 40 30 50 51 20 15\n");
  folder.Write("sparse/0/images.txt", "1 1 0 0 0 0 0 0 1 a.png\n\n");
  SceneOptions options;
  options.reading.poses = PoseConvention::kOpenCv;
  EXPECT_THAT(DescribeScene(folder.path(), options).warnings,
              ::testing::Contains(HasSubstr("poses has no effect")));
}

TEST(PoseConventionTest, TransposedMatricesAreNamed) {
  const TempFolder folder;
  folder.Write("a.png", MakePng(20, 20));
  folder.Write("transforms.json", R"({"fl_x":20,"frames":[{"file_path":"a.png","transform_matrix":)"
                                  R"([[1,0,0,0],[0,1,0,0],[0,0,1,0],[1,2,3,1]]}]})");
  EXPECT_THAT(SummaryOf(DescribeScene(folder.path()).problems),
              HasSubstr("the last row must be 0 0 0 1; the last column is, so the matrix is "
                        "transposed"));
}

}  // namespace
}  // namespace nerf
