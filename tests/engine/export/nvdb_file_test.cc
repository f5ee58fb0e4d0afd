#include "engine/export/files/nvdb_file.h"

#include <gtest/gtest.h>
#include <nanovdb/util/GridValidator.h>
#include <nanovdb/util/IO.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/engine/export/shapes.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

TEST(NvdbFileTest, NanoVdbReadsDensityColorAndPlaceOfEveryPoint) {
  SceneGeometry geometry = ShapeGeometry();
  geometry.frame = ToSceneFrame({.scale = 4, .translation = {1, 2, 3}});
  ThreadPool pool(2);
  const auto volume = MakeVolume(*ModelOfShape(Sphere({}, 0.5f)), geometry, {}, 48, 0, &pool, {},
                                 [](std::string_view, double) {});
  ASSERT_THAT(volume, IsOk());
  for (const AxesName name : {AxesName::kDataset, AxesName::kUnity, AxesName::kOpenCv}) {
    const ExportAxes axes(name, /*is_y_up=*/false, geometry);
    const auto bytes = VolumeNanoVdb(*volume, axes);
    ASSERT_THAT(bytes, IsOk());
    EXPECT_TRUE(*bytes == *VolumeNanoVdb(*volume, axes));
    std::istringstream file(*bytes);
    const std::vector<nanovdb::GridHandle<>> grids = nanovdb::io::readGrids(file);
    ASSERT_EQ(grids.size(), 2u);
    const auto* const density = grids[0].grid<float>();
    const auto* const color = grids[1].grid<nanovdb::Vec3f>();
    ASSERT_TRUE(density != nullptr && color != nullptr);
    EXPECT_TRUE(nanovdb::isValid(*density, /*detailed=*/true, /*verbose=*/false));
    EXPECT_TRUE(nanovdb::isValid(*color, true, false));
    EXPECT_EQ(density->gridName(), std::string("density"));
    EXPECT_EQ(density->activeVoxelCount(), volume->n_points);
    EXPECT_EQ(color->activeVoxelCount(), volume->n_points);
    const VolumeLeaf& leaf = volume->leaves[volume->leaves.size() / 2];
    size_t at = 0;
    for (int bit = 0; bit < 512; ++bit) {
      if ((leaf.active[bit >> 6] >> (bit & 63) & 1) == 0) continue;
      const nanovdb::Coord place(leaf.origin[0] + (bit >> 6), leaf.origin[1] + (bit >> 3 & 7),
                                 leaf.origin[2] + (bit & 7));
      EXPECT_EQ(density->tree().getValue(place), leaf.densities[at]);
      EXPECT_EQ(color->tree().getValue(place)[1], leaf.colors[at].y);
      const nanovdb::Vec3d world = density->indexToWorld(nanovdb::Vec3d(place));
      const Vec3 expected = axes.Point(volume->grid.PointAt(place[0], place[1], place[2]));
      for (int axis = 0; axis < 3; ++axis) EXPECT_NEAR(world[axis], expected[axis], 1e-5);
      const nanovdb::Vec3d back = density->worldToIndex(world);
      for (int axis = 0; axis < 3; ++axis) EXPECT_NEAR(back[axis], place[axis], 1e-4);
      ++at;
    }
  }
}

}  // namespace
}  // namespace nerf
