#include "engine/export/files/vdb_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/engine/export/shapes.h"
#include "tests/testing/status_matchers.h"

// OpenVDB itself reads such files in tests/bench/read_exports.py.
namespace nerf {
namespace {

absl::StatusOr<Volume> VolumeOf(const Shape& shape, const std::optional<OwnBox>& box = {},
                                SceneGeometry geometry = ShapeGeometry(), int n_threads = 2) {
  ThreadPool pool(n_threads);
  return MakeVolume(*ModelOfShape(shape), geometry, box, 64, 0, &pool, {},
                    [](std::string_view, double) {});
}

TEST(VdbFileTest, VolumeHasTheDensityAndColorOfItsPlaces) {
  SceneGeometry geometry = ShapeGeometry();
  geometry.frame = ToSceneFrame({.scale = 4});  // an own unit is four training units
  const Shape sphere = Sphere({}, 0.5f);
  const auto volume = VolumeOf(sphere, {}, geometry);
  ASSERT_THAT(volume, IsOk());
  const ShapeField field(sphere, DefaultLevel(geometry), 2.0f / 256);
  size_t n = 0;
  for (const VolumeLeaf& leaf : volume->leaves) {
    size_t at = 0;
    for (int bit = 0; bit < 512; ++bit) {
      if ((leaf.active[bit >> 6] >> (bit & 63) & 1) == 0) continue;
      const Vec3 p = volume->grid.PointAt(
          leaf.origin[0] + (bit >> 6), leaf.origin[1] + (bit >> 3 & 7), leaf.origin[2] + (bit & 7));
      float sigma = 0;
      const auto workspace = field.NewWorkspace(1);
      field.Density(1, &p, &sigma, workspace.get());
      EXPECT_FLOAT_EQ(leaf.densities[at], 4 * sigma);
      const float red = 0.5f + 0.5f * p.x;
      EXPECT_NEAR(leaf.colors[at].x, std::pow((red + 0.055f) / 1.055f, 2.4f), 1e-4f);
      ++at;
    }
    EXPECT_EQ(at, leaf.densities.size());
    n += at;
  }
  EXPECT_EQ(n, volume->n_points);
  // As far out as a cell stops a thousandth of the light.
  const float cell = volume->grid.cell;
  const float reach = 2.0f / 256 * std::log(DefaultLevel(geometry) * cell * 1000);
  EXPECT_NEAR(static_cast<float>(n) * cell * cell * cell, 4.0 / 3 * M_PI * std::pow(0.5 + reach, 3),
              0.01);
}

TEST(VdbFileTest, BytesDoNotDependOnThreads) {
  const ExportAxes axes(AxesName::kUnity, false, ShapeGeometry());
  const auto one = VolumeOf(Torus(0.6f, 0.2f), {}, ShapeGeometry(), 1);
  const auto three = VolumeOf(Torus(0.6f, 0.2f), {}, ShapeGeometry(), 3);
  ASSERT_THAT(one, IsOk());
  ASSERT_THAT(three, IsOk());
  const std::string bytes = VolumeVdb(*one, axes);
  EXPECT_TRUE(bytes == VolumeVdb(*three, axes));
  EXPECT_EQ(bytes.substr(0, 8), std::string(" BDV\0\0\0\0", 8));
  // The offset of the end, which the descriptor of the last grid has, is that of the file.
  const size_t type = bytes.find("Tree_vec3s_5_4_3");
  ASSERT_NE(type, std::string::npos);
  int64_t end = 0;
  std::memcpy(&end, bytes.data() + type + 16 + 4 + 16, sizeof(end));
  EXPECT_EQ(end, static_cast<int64_t>(bytes.size()));
}

TEST(VdbFileTest, BoxCutsTheVolume) {
  const auto volume = VolumeOf(Sphere({}, 0.5f), OwnBox{{0, 0, 0.5}, {2, 2, 1}});
  ASSERT_THAT(volume, IsOk());
  for (const VolumeLeaf& leaf : volume->leaves) {
    for (int bit = 0; bit < 512; ++bit) {
      if ((leaf.active[bit >> 6] >> (bit & 63) & 1) == 0) continue;
      EXPECT_GE(volume->grid.PointAt(0, 0, leaf.origin[2] + (bit & 7)).z, -1e-5f);
    }
  }
  EXPECT_EQ(VolumeOf(Sphere({}, 0.5f), OwnBox{{7.5, 7.5, 7.5}, {1, 1, 1}}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace nerf
