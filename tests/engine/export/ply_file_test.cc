#include "engine/export/files/ply_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "engine/base/export_bytes.h"
#include "engine/methods/splats/harmonics.h"
#include "engine/scene/pose.h"
#include "engine/views/path/spline.h"
#include "tests/engine/export/ply_reader.h"
#include "tests/engine/export/shapes.h"
#include "tests/testing/random_floats.h"

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

// Splats of all degrees; the last one is thinner than its width.
SplatCloud SomeSplats(int degree) {
  SplatCloud cloud;
  cloud.degree = degree;
  cloud.widths = {0.02f, 0.03f, 0.05f};
  cloud.numbers.resize(3 * static_cast<size_t>(cloud.row_size()));
  for (size_t i = 0; i < 3; ++i) {
    const std::vector<float> random = RandomFloats(60, -1, 1, static_cast<uint32_t>(i));
    float* const row = cloud.row(i);
    std::copy_n(random.begin(), SplatCloud::kColor + 3 * cloud.n_harmonics(), row);
    for (int axis = 0; axis < 3; ++axis) row[SplatCloud::kLogScale + axis] -= i == 2 ? 6 : 2;
  }
  return cloud;
}

// Variances of a splat in the frame of its file, [3][3].
std::vector<double> VariancesIn(const PlyFile& file, size_t i) {
  const auto at = [&](const std::string& key) { return file.properties.at(key)[i]; };
  Mat34 turn;
  SetRotation({static_cast<float>(at("rot_0")), static_cast<float>(at("rot_1")),
               static_cast<float>(at("rot_2")), static_cast<float>(at("rot_3"))},
              &turn);
  std::vector<double> variances(9);
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 3; ++column) {
      for (int axis = 0; axis < 3; ++axis) {
        variances[3 * row + column] += std::exp(2 * at("scale_" + std::to_string(axis))) *
                                       turn.m[row][axis] * turn.m[column][axis];
      }
    }
  }
  return variances;
}

// What the splat looks like from a direction, red.
double RedOf(const PlyFile& file, size_t i, int degree, Vec3 direction) {
  float harmonics[16];
  SplatHarmonics(degree, direction, harmonics, nullptr);
  double red = harmonics[0] * file.properties.at("f_dc_0")[i];
  for (int k = 1; k < (degree + 1) * (degree + 1); ++k)
    red += harmonics[k] * file.properties.at("f_rest_" + std::to_string(k - 1))[i];
  return red;
}

TEST(PlyFileTest, SplatsLookTheSameInEveryFrame) {
  SceneGeometry geometry;
  geometry.frame = ToSceneFrame({.scale = 0.5});  // own units are twice the training units
  for (const int degree : {0, 1, 2, 3}) {
    const SplatCloud cloud = SomeSplats(degree);
    const PlyFile plain =
        ReadPly(SplatsPly(cloud, ExportAxes(AxesName::kDataset, false, geometry)));
    ASSERT_EQ(plain.n_vertices, 3u);
    ASSERT_EQ(plain.properties.size() * 4, SplatPlyBytes(degree));
    for (const AxesName name : {AxesName::kBlender, AxesName::kUnity, AxesName::kOpenCv}) {
      const ExportAxes axes(name, false, geometry);
      const PlyFile file = ReadPly(SplatsPly(cloud, axes));
      for (size_t i = 0; i < 3; ++i) {
        const float* const row = cloud.row(i);
        const Vec3 point = axes.Point({row[0], row[1], row[2]});
        EXPECT_NEAR(file.properties.at("y")[i], point.y, 1e-5);
        EXPECT_EQ(file.properties.at("opacity")[i], plain.properties.at("opacity")[i]);
        // The variance along a direction of the training frame.
        const std::vector<double> here = VariancesIn(plain, i), there = VariancesIn(file, i);
        const auto along = [](const std::vector<double>& v, Vec3 d) {
          double sum = 0;
          for (int a = 0; a < 9; ++a) sum += v[a] * d[a / 3] * d[a % 3];
          return sum;
        };
        for (const Vec3 d : RandomDirections(8)) {
          const Vec3 turned = axes.Direction(d);
          EXPECT_NEAR(along(there, turned), along(here, d), 1e-5 * along(here, d) + 1e-9);
          EXPECT_NEAR(RedOf(file, i, degree, turned), RedOf(plain, i, degree, d), 1e-5);
        }
      }
    }
  }
}

TEST(PlyFileTest, SplatsAreAsWideAsPicturesCanShow) {
  SplatCloud cloud = SomeSplats(0);
  cloud.row(2)[SplatCloud::kOpacity] = 0;
  const PlyFile file =
      ReadPly(SplatsPly(cloud, ExportAxes(AxesName::kDataset, false, SceneGeometry())));
  double dimming = 1;
  for (int axis = 0; axis < 3; ++axis) {
    const double own = std::exp(cloud.row(2)[SplatCloud::kLogScale + axis]);
    const double scale = std::exp(file.properties.at("scale_" + std::to_string(axis))[2]);
    EXPECT_NEAR(scale, std::hypot(own, 0.05), 1e-6);
    dimming *= own / scale;
  }
  EXPECT_NEAR(1 / (1 + std::exp(-file.properties.at("opacity")[2])), 0.5 * dimming, 1e-6);
}

}  // namespace
}  // namespace nerf
