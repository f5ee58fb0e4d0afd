#include "engine/export/files/ply_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/scene/pose.h"
#include "tests/engine/export/ply_reader.h"
#include "tests/engine/export/shapes.h"

namespace nerf {
namespace {

TriangleMesh MeshIn(const PlyFile& file) {
  TriangleMesh mesh;
  for (size_t i = 0; i < file.n_vertices; ++i) {
    mesh.positions.push_back({static_cast<float>(file.properties.at("x")[i]),
                              static_cast<float>(file.properties.at("y")[i]),
                              static_cast<float>(file.properties.at("z")[i])});
  }
  mesh.indices = file.corners;
  return mesh;
}

PlyFile TorusFile(AxesName name, const Similarity& own_to_training) {
  SceneGeometry geometry = ShapeGeometry();
  geometry.frame = ToSceneFrame(own_to_training);
  const MeshExport made =
      MeshOfShape(Torus(0.6f, 0.2f), {.resolution = 64, .n_triangles = 4000}, geometry);
  return ReadPly(MeshPly(made.mesh, ExportAxes(name, false, geometry)));
}

TEST(PlyFileTest, MeshMovesWithTheDataSet) {
  // The data set turned, scaled and moved: its points lie elsewhere, the training frame is the
  // same.
  Similarity moved;
  moved.scale = 7.5;
  const double c = std::cos(0.7), s = std::sin(0.7);
  const double turn[3][3] = {{c, -s, 0}, {s, c, 0}, {0, 0, 1}};
  std::copy(&turn[0][0], &turn[0][0] + 9, &moved.rotation[0][0]);
  moved.translation = {12, -30, 4};
  const PlyFile before = TorusFile(AxesName::kDataset, {});
  const PlyFile after = TorusFile(AxesName::kDataset, Inverse(moved));
  ASSERT_GT(before.n_vertices, 1000u);
  ASSERT_EQ(after.n_vertices, before.n_vertices);
  EXPECT_EQ(after.corners, before.corners);
  const TriangleMesh a = MeshIn(before), b = MeshIn(after);
  for (size_t i = 0; i < before.n_vertices; ++i) {
    const Vec3d p = moved.ApplyToPoint({a.positions[i].x, a.positions[i].y, a.positions[i].z});
    for (int axis = 0; axis < 3; ++axis) {
      EXPECT_NEAR(b.positions[i][axis], p[axis], 1e-4 * moved.scale);
    }
  }
}

TEST(PlyFileTest, TrianglesStayCounterclockwiseInEveryFrame) {
  for (const AxesName name : {AxesName::kDataset, AxesName::kBlender, AxesName::kUnity,
                              AxesName::kUnreal, AxesName::kOpenCv}) {
    const PlyFile file = TorusFile(name, {});
    ASSERT_GT(file.n_vertices, 0u);
    const TriangleMesh mesh = MeshIn(file);
    EXPECT_TRUE(IsClosed(mesh));
    EXPECT_GT(VolumeOf(mesh), 0);
    const std::vector<Vec3> normals = VertexNormals(mesh);
    for (size_t i = 0; i < normals.size(); ++i) {
      const Vec3 stored{static_cast<float>(file.properties.at("nx")[i]),
                        static_cast<float>(file.properties.at("ny")[i]),
                        static_cast<float>(file.properties.at("nz")[i])};
      EXPECT_GT(Dot(stored, normals[i]), 0.99f);
    }
  }
}

TEST(PlyFileTest, PointsHaveColorsOfEightBits) {
  const SurfacePoint points[] = {{{1, 2, 3}, {0, 0, 1}, {0, 0.5f, 1}},
                                 {{4, 5, 6}, {1, 0, 0}, {-0.1f, 0.2f, 1.3f}}};
  const PlyFile file =
      ReadPly(PointsPly(points, ExportAxes(AxesName::kDataset, false, SceneGeometry())));
  ASSERT_EQ(file.n_vertices, 2u);
  EXPECT_THAT(file.properties.at("y"), ::testing::ElementsAre(2, 5));
  EXPECT_THAT(file.properties.at("nx"), ::testing::ElementsAre(0, 1));
  EXPECT_THAT(file.properties.at("red"), ::testing::ElementsAre(0, 0));
  EXPECT_THAT(file.properties.at("green"), ::testing::ElementsAre(128, 51));
  EXPECT_THAT(file.properties.at("blue"), ::testing::ElementsAre(255, 255));
  EXPECT_TRUE(file.corners.empty());
}

TEST(PlyFileTest, SplatsAreFlatAlongTheirNormal) {
  SceneGeometry geometry;
  geometry.frame = ToSceneFrame({.scale = 0.5});
  std::vector<SurfacePoint> points;
  for (const Vec3 normal : {Vec3{0, 0, 1}, Vec3{0, 0, -1}, Vec3{1, 0, 0}, Vec3{0.6f, -0.8f, 0},
                            Normalized({1, 2, -3})}) {
    points.push_back({{0.1f, 0.2f, 0.3f}, normal, {0.25f, 0.5f, 1}});
  }
  for (const AxesName name : {AxesName::kDataset, AxesName::kUnity}) {
    const ExportAxes axes(name, false, geometry);
    const PlyFile file = ReadPly(SplatsPly(points, 0.01f, axes));
    ASSERT_EQ(file.n_vertices, points.size());
    ASSERT_EQ(file.properties.size(), 17u);
    for (size_t i = 0; i < points.size(); ++i) {
      const auto at = [&](const char* key) { return file.properties.at(key)[i]; };
      const double w = at("rot_0"), x = at("rot_1"), y = at("rot_2"), z = at("rot_3");
      EXPECT_NEAR(w * w + x * x + y * y + z * z, 1, 1e-5);
      // Third column of the rotation: where the thin axis points.
      const Vec3 normal = axes.Direction(points[i].normal);
      EXPECT_NEAR(2 * (x * z + w * y), normal.x, 1e-5);
      EXPECT_NEAR(2 * (y * z - w * x), normal.y, 1e-5);
      EXPECT_NEAR(1 - 2 * (x * x + y * y), normal.z, 1e-5);
      // Own units are twice the training units.
      EXPECT_NEAR(std::exp(at("scale_0")), 0.5 * 0.02, 1e-5);
      EXPECT_EQ(at("scale_0"), at("scale_1"));
      EXPECT_LT(at("scale_2"), at("scale_0") - 2);
      EXPECT_NEAR(1 / (1 + std::exp(-at("opacity"))), 0.95, 1e-5);
      EXPECT_NEAR(0.5 + 0.28209479 * at("f_dc_0"), 0.25, 1e-5);
      EXPECT_NEAR(0.5 + 0.28209479 * at("f_dc_2"), 1, 1e-5);
    }
  }
}

}  // namespace
}  // namespace nerf
