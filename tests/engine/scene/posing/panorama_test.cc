// Panoramas cut into faces and back, without COLMAP.
#include "engine/scene/posing/photographs/panorama.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/files/file_io.h"
#include "engine/scene/camera.h"
#include "engine/scene/pictures/image_io.h"
#include "engine/scene/posing/photographs/panorama_rig.h"
#include "engine/scene/read/scene_reader.h"
#include "nlohmann/json.hpp"
#include "tests/engine/scene/posing/pose_fixture.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The color that TestPanorama has in a direction.
std::array<double, 3> ColorToward(const std::array<double, 3>& d) {
  return {127.5 + 100 * d[0], 127.5 + 100 * d[1], 127.5 + 60 * d[2] + 60 * d[0] * d[1]};
}

ImageU8 TestPanorama(int width) {
  ImageU8 image{width, width / 2, 3, {}};
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < width; ++x) {
      const double u = ((x + 0.5) / width - 0.5) * 2 * std::numbers::pi;
      const double v = ((y + 0.5) / image.height - 0.5) * std::numbers::pi;
      const auto color =
          ColorToward({std::sin(u) * std::cos(v), std::sin(v), std::cos(u) * std::cos(v)});
      for (const double c : color) image.pixels.push_back(static_cast<uint8_t>(std::lround(c)));
    }
  }
  return image;
}

PosedPhoto SomePose(double seed) {
  ColmapImage image{};
  const double rotation[] = {1, seed, -0.4 * seed, 0.7};
  std::copy(std::begin(rotation), std::end(rotation), image.rotation);
  image.translation[0] = 0.3 * seed;
  image.translation[1] = -1;
  image.translation[2] = 2 + seed;
  return ToPosedPhoto(image);
}

double Difference(const PosedPhoto& a, const PosedPhoto& b) {
  double most = 0;
  for (size_t i = 0; i < 3; ++i) {
    most = std::max(most, std::abs(a.center[i] - b.center[i]));
    for (size_t j = 0; j < 3; ++j) most = std::max(most, std::abs(a.axes[i][j] - b.axes[i][j]));
  }
  return most;
}

Photo PanoramaPhoto(const std::string& file, int width = 256, int lens = 0) {
  Photo photo;
  photo.name = photo.file = file;
  photo.width = width;
  photo.height = width / 2;
  photo.lens = lens;
  return photo;
}

TEST(PanoramaTest, FaceShowsWhatThePanoramaShowsInItsDirections) {
  const ImageU8 panorama = TestPanorama(512);
  for (int face = 0; face < kPanoramaFaces; ++face) {
    const ImageU8 cut = CutFace(panorama, face);
    ASSERT_EQ(cut.width, FaceSide(512));
    for (int y = 0; y < cut.height; y += 7) {
      for (int x = 0; x < cut.width; x += 7) {
        const auto color = ColorToward(FaceDirection(face, cut.width, x + 0.5, y + 0.5));
        for (int c = 0; c < 3; ++c)
          ASSERT_NEAR(cut.Pixel(x, y)[c], color[c], 1.01) << face << " " << x << " " << y;
      }
    }
  }
}

TEST(PanoramaTest, DirectionsAreThoseOfTheLensThatTrains) {
  Camera camera;
  camera.width = 512, camera.height = 256;
  camera.lens = LensModel::kEquirectangular;
  camera.fl_x = camera.fl_y = static_cast<float>(256 / std::numbers::pi);
  camera.cx = 256, camera.cy = 128;
  for (int face = 0; face < kPanoramaFaces; ++face) {
    for (const double x : {0.5, 80.0, 162.5}) {
      const auto toward = FaceDirection(face, 163, x, 163 - x / 2);
      const auto [u, v] = PanoramaPosition(512, 256, toward);
      const Ray ray = CameraRay(camera, static_cast<float>(u), static_cast<float>(v));
      EXPECT_NEAR(ray.direction.x, toward[0], 1e-5);
      EXPECT_NEAR(-ray.direction.y, toward[1], 1e-5);
      EXPECT_NEAR(-ray.direction.z, toward[2], 1e-5);
    }
  }
}

TEST(PanoramaTest, FacesGiveTheirPanoramasPoseBack) {
  for (const double seed : {0.0, 1.3, -8.0}) {
    const PosedPhoto pose = SomePose(seed);
    std::vector<std::pair<int, PosedPhoto>> faces;
    for (int face = 0; face < kPanoramaFaces; ++face) faces.push_back({face, FacePose(pose, face)});
    EXPECT_LT(Difference(PanoramaPose(faces, 1e-9), pose), 1e-12);
    EXPECT_LT(Difference(ToPosedPhoto(ToColmapImage(pose, 1, 1, "a")), pose), 1e-12);
  }
}

TEST(PanoramaTest, FacesThatDisagreeAreLeftOut) {
  const PosedPhoto pose = SomePose(0.4);
  std::vector<std::pair<int, PosedPhoto>> faces;
  for (int face = 0; face < 5; ++face) {
    faces.push_back({face, FacePose(pose, face)});
    faces.back().second.n_points = 10;
  }
  faces[1].second = FacePose(SomePose(0.9), 1);  // turned
  faces[3].second.center[2] += 0.5;              // moved
  faces[1].second.n_points = faces[3].second.n_points = 10'000;
  const PosedPhoto found = PanoramaPose(faces, 0.1);
  EXPECT_LT(Difference(found, pose), 1e-12);
  EXPECT_EQ(found.n_points, 30u);
}

TEST(PanoramaTest, RigOfFacesBecomesTheModelOfItsPanoramas) {
  TempDir dir;
  const std::vector<Photo> panoramas = {PanoramaPhoto("a.png"), PanoramaPhoto("b.png", 512, 1),
                                        PanoramaPhoto("c.png"), PanoramaPhoto("unposed.png")};
  std::map<std::string, PosedPhoto> poses;
  std::map<std::string, ColmapIds> ids;
  for (size_t i = 0; i < panoramas.size(); ++i) {
    if (i < 3) poses[panoramas[i].file] = SomePose(static_cast<double>(i));
    for (int face = 0; face < kPanoramaFaces; ++face) {
      ids[FaceFile(panoramas[i], face)] = {
          static_cast<uint32_t>(100 + kPanoramaFaces * i + static_cast<size_t>(face)),
          static_cast<uint32_t>(1 + panoramas[i].lens * kPanoramaFaces + face)};
    }
    dir.Write("out/images/" + panoramas[i].file, *EncodePng(TestPanorama(panoramas[i].width)));
  }
  ASSERT_THAT(WriteRig(poses, panoramas, ids, dir / "rig", dir / "rig.json"), IsOk());
  const auto config = nlohmann::json::parse(*ReadFile(dir / "rig.json", 1 << 20));
  ASSERT_EQ(config.size(), 2u) << "a rig of each lens";
  EXPECT_EQ(config[1]["ref_camera_id"], 9);
  EXPECT_EQ(config[1]["cameras"][3]["image_prefix"], "l1f3/");
  EXPECT_NEAR(config[0]["cameras"][0]["rel_qvec"][0], 1, 1e-12);
  // A point that faces of two panoramas show, and one of faces of a single one.
  dir.Write("rig/points3D.txt",
            "1 1 2 3 9 9 9 0.5 100 0 101 0 108 0\n2 1 2 3 9 9 9 0.5 100 0 101 0\n");
  ASSERT_THAT(WritePanoramas(dir / "rig", panoramas, dir / "out/sparse/0"), IsOk());
  const auto model = ReadPosedModel(dir / "out/sparse/0");
  ASSERT_THAT(model, IsOk());
  for (const auto& [name, pose] : poses)
    EXPECT_LT(Difference(model->photos.at(name), pose), 1e-9) << name;
  ASSERT_EQ(model->points.size(), 1u);
  EXPECT_THAT(model->points[0].images, ElementsAre(1u, 2u));
  const SceneDescription scene = DescribeScene(dir / "out");
  EXPECT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  ASSERT_EQ(scene.train.size() + scene.test.size(), 3u);
  EXPECT_EQ(scene.train[0].camera.lens, LensModel::kEquirectangular);
  EXPECT_THAT(scene.camera_models,
              ElementsAre("EQUIRECTANGULAR 256x128", "EQUIRECTANGULAR 512x256"));
  EXPECT_EQ(scene.n_unposed, 1);
}

TEST(PanoramaTest, CutFilesCarryTheirPanoramasName) {
  TempDir dir;
  dir.Write("images/a b.png", *EncodePng(TestPanorama(128)));
  ThreadPool pool(2);
  PrepareOptions prepare;
  prepare.pool = &pool;
  dir.Write("masks/x", "");
  ASSERT_THAT(MaskPole(PanoramaPhoto("a b.png", 128, 2), 30, dir / "masks"), IsOk());
  const auto faces =
      CutPanoramas({PanoramaPhoto("a b.png", 128, 2)},
                   {dir / "images", dir / "faces", dir / "masks", dir / "cut"}, prepare);
  ASSERT_THAT(faces, IsOk());
  ASSERT_EQ(faces->size(), 8u);
  EXPECT_EQ((*faces)[3].file, "l2f3/a b.png.jpg");
  EXPECT_EQ((*faces)[3].lens, 19);
  EXPECT_EQ(PanoramaOfFace((*faces)[3].file), "a b.png");
  EXPECT_EQ(DecodeImage(dir / "faces/l2f3/a b.png.jpg")->width, FaceSide(128));
  const auto mask = DecodeImage(dir / "cut/l2f3/a b.png.jpg.png");
  ASSERT_THAT(mask, IsOk());
  EXPECT_EQ(mask->Pixel(20, 1)[0], 255) << "above the horizon";
  EXPECT_EQ(mask->Pixel(20, FaceSide(128) - 1)[0], 0) << "far below it";
}

TEST(PanoramaTest, PoleIsAddedToAMaskThatIsThere) {
  TempDir dir;
  ImageU8 own{128, 64, 1, std::vector<uint8_t>(128 * 64, 255)};
  own.pixels[5] = 0;
  dir.Write("a.jpg.png", *EncodePng(own));
  ASSERT_THAT(MaskPole(PanoramaPhoto("a.jpg", 128, 0), 60, dir.path()), IsOk());
  const auto mask = DecodeImage(dir / "a.jpg.png");
  ASSERT_THAT(mask, IsOk());
  EXPECT_EQ(mask->Pixel(5, 0)[0], 0);
  EXPECT_EQ(mask->Pixel(6, 0)[0], 255);
  EXPECT_EQ(mask->Pixel(6, 63)[0], 0);
}

TEST(PanoramaTest, MaskIsBlackBelowTheAngle) {
  const ImageU8 mask = PanoramaMask(8, 180, 60);
  EXPECT_EQ(mask.Pixel(3, 0)[0], 255);
  EXPECT_EQ(mask.Pixel(3, 149)[0], 255);
  EXPECT_EQ(mask.Pixel(3, 150)[0], 0);
  EXPECT_EQ(mask.Pixel(3, 179)[0], 0);
}

TEST(PanoramaTest, ClosedPicturesAreToldFromOthersOfTheirShape) {
  EXPECT_TRUE(ClosesAround(ReducedGray(TestPanorama(256), 800)));
  EXPECT_FALSE(ClosesAround(ReducedGray(GradientImage(256, 128), 800)));
  EXPECT_FALSE(ClosesAround(ReducedGray(TexturedImage(256, 128, 3), 800)));
  EXPECT_FALSE(ClosesAround(ReducedGray(TexturedImage(256, 200, 3), 800)));
  ImageU8 framed = TexturedImage(256, 128, 3);
  for (int y = 0; y < 128; ++y) {
    for (int x = 0; x < 256; ++x) {
      if (x > 4 && x < 251 && y > 4 && y < 123) continue;
      for (int c = 0; c < 3; ++c) framed.pixels[(static_cast<size_t>(y) * 256 + x) * 3 + c] = 0;
    }
  }
  EXPECT_FALSE(ClosesAround(ReducedGray(framed, 800)));
}

TEST(PanoramaTest, XmpOfPanoramasIsFound) {
  EXPECT_TRUE(SaysEquirectangular("..<GPano:ProjectionType>equirectangular</GPano:.."));
  EXPECT_TRUE(SaysEquirectangular("x GPano:ProjectionType=\"equirectangular\" y"));
  EXPECT_FALSE(SaysEquirectangular("GPano:ProjectionType=\"cylindrical\""));
  EXPECT_FALSE(SaysEquirectangular("GPano:ProjectionType"));
  EXPECT_FALSE(SaysEquirectangular("equirectangular"));
}

TEST(PanoramaTest, MostPhotographsDecideAndOthersAreLeftOut) {
  std::vector<Photo> photos = {PanoramaPhoto("a.jpg"), PanoramaPhoto("b.jpg"),
                               PanoramaPhoto("c.jpg")};
  photos[0].is_panorama = photos[1].is_panorama = true;
  photos[2].height = 200;
  EXPECT_TRUE(ArePanoramas(photos, CameraKind::kAuto));
  EXPECT_FALSE(ArePanoramas(photos, CameraKind::kPerspective));
  EXPECT_THAT(LeaveOutOthers(&photos), ElementsAre("c.jpg"));
  EXPECT_TRUE(photos[2].file.empty());
  EXPECT_THAT(photos[2].error, HasSubstr("256x200"));
  photos = {PanoramaPhoto("a.jpg"), PanoramaPhoto("b.jpg")};
  photos[0].is_panorama = true;
  EXPECT_FALSE(ArePanoramas(photos, CameraKind::kAuto)) << "half are no majority";
  EXPECT_TRUE(ArePanoramas(photos, CameraKind::kEquirectangular));
}

TEST(PanoramaTest, FacesJoinToPanoramas) {
  ColmapDatabase faces;
  faces.n_features = {{"l0f0/a.png.jpg", 10}, {"l0f1/a.png.jpg", 5}, {"l0f0/b.png.jpg", 7}};
  faces.pairs = {{"l0f0/a.png.jpg", "l0f0/b.png.jpg", 4}, {"l0f0/b.png.jpg", "l0f1/a.png.jpg", 3}};
  const ColmapDatabase joined = JoinFaces(faces);
  EXPECT_EQ(joined.n_features.at("a.png"), 15u);
  ASSERT_EQ(joined.pairs.size(), 1u);
  EXPECT_EQ(joined.pairs[0].first, "a.png");
  EXPECT_EQ(joined.pairs[0].n_inliers, 7u);
}

}  // namespace
}  // namespace nerf
