#include "engine/export/files/export_axes.h"

#include <gtest/gtest.h>

#include <cmath>

namespace nerf {
namespace {

void ExpectNear(Vec3 actual, Vec3 expected, float tolerance = 1e-5f) {
  for (int axis = 0; axis < 3; ++axis) {
    EXPECT_NEAR(actual[axis], expected[axis], tolerance)
        << actual.x << ", " << actual.y << ", " << actual.z;
  }
}

SceneGeometry Untouched(SceneFlavor flavor) {
  SceneGeometry geometry;
  geometry.flavor = flavor;
  return geometry;
}

TEST(ExportAxesTest, PointsGoBackToTheDataSetsFrameAndUnit) {
  Similarity placed;
  placed.scale = 0.25;
  const double turn[3][3] = {{0, 0, 1}, {1, 0, 0}, {0, 1, 0}};
  std::copy(&turn[0][0], &turn[0][0] + 9, &placed.rotation[0][0]);
  placed.translation = {0.5, -1, 2};
  SceneGeometry geometry;
  geometry.frame = ToSceneFrame(placed);
  const ExportAxes axes(AxesName::kDataset, false, geometry);
  const Vec3d own = {3, -4, 7};
  const Vec3d training = placed.ApplyToPoint(own);
  ExpectNear(axes.Point({static_cast<float>(training[0]), static_cast<float>(training[1]),
                         static_cast<float>(training[2])}),
             {3, -4, 7}, 1e-4f);
  ExpectNear(axes.Direction({0, 1, 0}), {1, 0, 0});
  EXPECT_FLOAT_EQ(axes.Length(1), 4);
}

TEST(ExportAxesTest, UpIsUpInEveryProgram) {
  const struct {
    AxesName name;
    bool of_gltf;
    Vec3 up;
    bool is_mirrored;
  } cases[] = {
      {AxesName::kBlender, false, {0, 0, 1}, false}, {AxesName::kUnity, false, {0, 1, 0}, true},
      {AxesName::kUnreal, false, {0, 0, 1}, true},   {AxesName::kOpenCv, false, {0, -1, 0}, false},
      {AxesName::kBlender, true, {0, 1, 0}, false},  {AxesName::kUnity, true, {0, 1, 0}, false},
      {AxesName::kOpenCv, true, {0, -1, 0}, false}};
  for (const auto& [name, of_gltf, up, is_mirrored] : cases) {
    for (const SceneFlavor flavor :
         {SceneFlavor::kBlender, SceneFlavor::kInstantNgp, SceneFlavor::kColmap}) {
      const ExportAxes axes(name, of_gltf, Untouched(flavor));
      const Vec3 own_up = flavor == SceneFlavor::kColmap ? Vec3{0, -1, 0} : Vec3{0, 0, 1};
      ExpectNear(axes.Direction(own_up), up);
      EXPECT_EQ(axes.is_mirrored(), is_mirrored);
      const float determinant = Dot(axes.Direction({1, 0, 0}),
                                    Cross(axes.Direction({0, 1, 0}), axes.Direction({0, 0, 1})));
      EXPECT_NEAR(determinant, is_mirrored ? -1 : 1, 1e-5f);
    }
  }
}

TEST(ExportAxesTest, ColmapsOwnAxesAreThoseOfOpenCv) {
  const ExportAxes axes(AxesName::kOpenCv, false, Untouched(SceneFlavor::kColmap));
  ExpectNear(axes.Point({1, 2, 3}), {1, 2, 3});
}

}  // namespace
}  // namespace nerf
