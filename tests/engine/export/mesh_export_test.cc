// Meshes of shapes whose surface is known, in a box from -1 to 1.
#include "engine/export/mesh/mesh_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/export/files/ply_file.h"
#include "engine/scene/pose.h"
#include "engine/views/render/orbit.h"
#include "tests/engine/export/shapes.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

Camera CameraAt(Vec3 position) {
  Camera camera;
  for (int axis = 0; axis < 3; ++axis) camera.camera_to_world.m[axis][3] = position[axis];
  return camera;
}

absl::StatusOr<MeshExport> TryMesh(const Shape& shape, const MeshOptions& options,
                                   std::span<const Camera> cameras = {},
                                   const std::stop_token& stop = {}) {
  ThreadPool pool(2);
  const auto model = ModelOfShape(shape);
  return MakeMesh(*model, ShapeGeometry(), cameras, options, &pool, stop,
                  [](std::string_view, double) {});
}

TEST(MeshExportTest, SphereAndTorusLieOnTheirSurfaces) {
  const struct {
    Shape shape;
    int euler_number;
    double volume;
  } shapes[] = {{Sphere({0.1f, -0.05f, 0.02f}, 0.6f), 2, 4.0 / 3 * M_PI * 0.6 * 0.6 * 0.6},
                {Torus(0.6f, 0.2f), 0, 2 * M_PI * M_PI * 0.6 * 0.2 * 0.2}};
  for (const auto& [shape, euler_number, volume] : shapes) {
    for (const size_t n_triangles : {size_t{10'000'000}, size_t{20'000}}) {
      const MeshExport made = MeshOfShape(shape, {.n_triangles = n_triangles});
      ASSERT_FALSE(made.mesh.indices.empty());
      EXPECT_TRUE(IsClosed(made.mesh));
      EXPECT_EQ(EulerNumber(made.mesh), euler_number);
      EXPECT_NEAR(VolumeOf(made.mesh), volume, 0.01 * volume);
      const Distances distances = DistancesFrom(shape, made.mesh);
      EXPECT_LT(distances.mean, 0.25);
      EXPECT_LT(distances.most, 0.5);
      EXPECT_LE(made.mesh.n_triangles(), n_triangles + n_triangles / 50);
      EXPECT_GT(made.mesh.n_triangles(), 9'000u);
    }
  }
}

TEST(MeshExportTest, MeshesOfWhichNothingIsLeftAreRefused) {
  const auto made = TryMesh(Sphere({}, 0.6f), {.resolution = 32, .n_triangles = 1});
  EXPECT_THAT(made, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(std::string(made.status().message()),
              testing::StartsWith("--triangles: 1 leaves nothing of "));
}

TEST(MeshExportTest, FogThatNoPhotographShowsIsLeftOutWhereThereIsTooMuch) {
  // A shell full of grains.
  const Shape ball = Sphere({}, 0.6f);
  const Shape foggy = [=](Vec3 p) {
    const float grains = 0.05f * std::sin(60 * p.x) * std::sin(60 * p.y) * std::sin(60 * p.z);
    return std::max(ball(p), std::min(0.35f - Norm(p), grains));
  };
  SceneGeometry geometry = ShapeGeometry();
  geometry.median_distance = 3;
  Camera camera;
  camera.width = camera.height = 100;
  camera.fl_x = camera.fl_y = 150;
  camera.cx = camera.cy = 50;
  std::vector<Camera> cameras;
  for (const float height : {-2.0f, 0.5f, 2.0f}) {
    geometry.median_height = height;
    for (const Camera& around : OrbitCameras(geometry, {}, camera, 8)) cameras.push_back(around);
  }
  const MeshOptions options = {.resolution = 64, .max_found = 180'000};
  EXPECT_TRUE(absl::IsResourceExhausted(TryMesh(foggy, options).status()));
  const auto made = TryMesh(foggy, options, cameras);
  ASSERT_THAT(made, IsOk());
  EXPECT_TRUE(made->is_of_shown);
  EXPECT_TRUE(IsClosed(made->mesh));
  EXPECT_NEAR(VolumeOf(made->mesh), 4.0 / 3 * M_PI * 0.6 * 0.6 * 0.6, 0.02);
  EXPECT_FALSE(TryMesh(ball, {.resolution = 64}, cameras)->is_of_shown);
}

TEST(MeshExportTest, VerticesHaveTheColorsOfTheSurfaceAndNormalsPointOutward) {
  const MeshExport made = MeshOfShape(Sphere({}, 0.5f), {.resolution = 64});
  ASSERT_EQ(made.mesh.colors.size(), made.mesh.positions.size());
  for (size_t i = 0; i < made.mesh.positions.size(); ++i) {
    const Vec3 p = made.mesh.positions[i];
    for (int axis = 0; axis < 3; ++axis) {
      // What is seen lies up to five 128ths behind the surface.
      EXPECT_NEAR(made.mesh.colors[i][axis], 0.5f + 0.5f * p[axis], 0.02f);
    }
    EXPECT_GT(Dot(made.mesh.normals[i], Normalized(p)), 0.95f);
  }
}

TEST(MeshExportTest, BytesDoNotDependOnThreads) {
  const Shape shape = Torus(0.6f, 0.2f);
  const ExportAxes axes(AxesName::kDataset, false, ShapeGeometry());
  const MeshOptions options = {.resolution = 64, .n_triangles = 3000};
  EXPECT_EQ(MeshPly(MeshOfShape(shape, options, ShapeGeometry(), 1).mesh, axes),
            MeshPly(MeshOfShape(shape, options, ShapeGeometry(), 3).mesh, axes));
}

TEST(MeshExportTest, SpecksAreLeftOut) {
  const Shape speck = Sphere({0.8f, 0.8f, 0.8f}, 0.04f);
  const MeshExport made = MeshOfShape(Union(Sphere({}, 0.5f), speck), {.resolution = 128});
  EXPECT_EQ(made.dropped.n_parts, 2);
  EXPECT_EQ(made.dropped.n_kept, 1);
  EXPECT_GT(made.dropped.n_triangles, 20u);
  EXPECT_EQ(EulerNumber(made.mesh), 2);
}

TEST(MeshExportTest, PartsThatNoTwoPhotographsShowAreLeftOut) {
  // A wall of a hollow sphere hides the ball inside it.
  const Shape hollow = [](Vec3 p) { return std::abs(Norm(p) - 0.7f) - 0.05f; };
  const Shape shape = Union(hollow, Sphere({}, 0.3f));
  const Camera outside[] = {CameraAt({3, 0, 0}), CameraAt({0, 3, 0}), CameraAt({0, 0, -3})};
  const auto seen = TryMesh(shape, {.resolution = 128}, outside);
  ASSERT_THAT(seen, IsOk());
  EXPECT_EQ(seen->dropped.n_parts, 3);
  EXPECT_EQ(seen->dropped.n_kept, 1);
  EXPECT_NEAR(VolumeOf(seen->mesh), 4.0 / 3 * M_PI * 0.75 * 0.75 * 0.75, 0.05);
  // Cameras between wall and ball see both of these.
  const Camera inside[] = {CameraAt({0.5f, 0, 0}),  CameraAt({0, 0.5f, 0}),
                           CameraAt({0, 0, 0.5f}),  CameraAt({-0.5f, 0, 0}),
                           CameraAt({0, -0.5f, 0}), CameraAt({0, 0, -0.5f})};
  const auto within = TryMesh(shape, {.resolution = 128}, inside);
  ASSERT_THAT(within, IsOk());
  EXPECT_EQ(within->dropped.n_kept, 2);
}

TEST(MeshExportTest, BoxInTheOwnFrameCutsTheShapeAndClosesIt) {
  // Own units are a quarter of training units; the box is the half of the sphere above z = 0.
  SceneGeometry geometry = ShapeGeometry();
  geometry.frame = ToSceneFrame({.scale = 4});
  const MeshOptions options = {.own_box = OwnBox{{0, 0, 0.125}, {0.5, 0.5, 0.25}},
                               .resolution = 128};
  const MeshExport made = MeshOfShape(Sphere({}, 0.5f), options, geometry);
  ASSERT_FALSE(made.mesh.indices.empty());
  EXPECT_TRUE(IsClosed(made.mesh));
  float lowest = 1;
  for (const Vec3& p : made.mesh.positions) lowest = std::min(lowest, p.z);
  EXPECT_NEAR(lowest, 0, 2.0f / 128);
  EXPECT_NEAR(VolumeOf(made.mesh), 2.0 / 3 * M_PI * 0.125, 0.02);
  EXPECT_EQ(made.size[0], 131);
  EXPECT_EQ(made.size[2], 67);
  // Turned about y until its z axis is x: the half of the sphere above x = 0.
  const MeshOptions turned = {
      .own_box = OwnBox{{0.125, 0, 0}, {0.5, 0.5, 0.25}, {0, std::sqrt(0.5), 0, std::sqrt(0.5)}},
      .resolution = 64};
  const MeshExport other = MeshOfShape(Sphere({}, 0.5f), turned, geometry);
  ASSERT_FALSE(other.mesh.indices.empty());
  lowest = 1;
  for (const Vec3& p : other.mesh.positions) lowest = std::min(lowest, p.x);
  EXPECT_NEAR(lowest, 0, 2.0f / 64);
  EXPECT_NEAR(VolumeOf(other.mesh), 2.0 / 3 * M_PI * 0.125, 0.03);
}

TEST(MeshExportTest, WhatHasNoSurfaceIsRefused) {
  const auto nothing = TryMesh(Sphere({5, 5, 5}, 0.1f), {.resolution = 16});
  EXPECT_EQ(nothing.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(nothing.status().message()), ::testing::HasSubstr("no surface"));
  const auto too_dense = TryMesh(Sphere({}, 0.5f), {.resolution = 16, .level = 1e9f});
  EXPECT_EQ(too_dense.status().code(), absl::StatusCode::kInvalidArgument);
  const MeshOptions elsewhere = {.own_box = OwnBox{{7.5, 7.5, 7.5}, {1, 1, 1}}, .resolution = 16};
  EXPECT_EQ(TryMesh(Sphere({}, 0.5f), elsewhere).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(MeshExportTest, StopIsHonored) {
  std::stop_source source;
  source.request_stop();
  EXPECT_EQ(TryMesh(Sphere({}, 0.5f), {.resolution = 64}, {}, source.get_token()).status().code(),
            absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace nerf
