#include "engine/export/files/nvdb_file.h"

#include <nanovdb/util/GridBuilder.h>
#include <nanovdb/util/IO.h>

#include <bit>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace nerf {
namespace {

// From numbers of points to the frame of the file: rows are multiplied from the left, as VolumeVdb
// has them.
nanovdb::Map MapOf(const SampleGrid& grid, const ExportAxes& axes) {
  constexpr int kFar = 1024;  // points: see VolumeVdb
  const Vec3 origin = axes.Point(grid.PointAt(0, 0, 0));
  const Vec3 ends[] = {axes.Point(grid.PointAt(kFar, 0, 0)), axes.Point(grid.PointAt(0, kFar, 0)),
                       axes.Point(grid.PointAt(0, 0, kFar))};
  double matrix[3][3], inverse[3][3];
  double squared = 0;  // of a cell's side, which is that of all axes
  for (int axis = 0; axis < 3; ++axis) {
    for (int i = 0; i < 3; ++i) {
      matrix[axis][i] = (double{ends[axis][i]} - double{origin[i]}) / kFar;
      if (axis == 0) squared += matrix[0][i] * matrix[0][i];
    }
  }
  // The frames are turned and scaled alone.
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 3; ++column) {
      inverse[row][column] = matrix[column][row] / squared;
    }
  }
  nanovdb::Map map;
  const Vec3d first = axes.PointFromZero(grid.PointAt(0, 0, 0));
  map.set(matrix, inverse, nanovdb::Vec3d(first[0], first[1], first[2]), 1.0);
  return map;
}

template <typename Value, typename Put>
nanovdb::GridHandle<> GridOf(const Volume& volume, const nanovdb::Map& map, const char* name,
                             nanovdb::GridClass grid_class, const Put& put) {
  nanovdb::GridBuilder<Value> builder(Value(0), grid_class);
  auto accessor = builder.getAccessor();
  for (const VolumeLeaf& leaf : volume.leaves) {
    size_t index = 0;
    for (int x = 0; x < kLeafSide; ++x) {
      for (uint64_t word = leaf.active[x]; word != 0; word &= word - 1, ++index) {
        const int bit = std::countr_zero(word);
        const nanovdb::Coord place(leaf.origin[0] + x, leaf.origin[1] + bit / kLeafSide,
                                   leaf.origin[2] + bit % kLeafSide);
        accessor.setValue(place, put(leaf, index));
      }
    }
  }
  return builder.template getHandle<>(map, name);
}

}  // namespace

absl::Status CanWriteNanoVdb() { return absl::OkStatus(); }

absl::StatusOr<std::string> VolumeNanoVdb(const Volume& volume, const ExportAxes& axes) {
  const nanovdb::Map map = MapOf(volume.grid, axes);
  std::vector<nanovdb::GridHandle<>> grids;
  grids.push_back(
      GridOf<float>(volume, map, "density", nanovdb::GridClass::FogVolume,
                    [](const VolumeLeaf& leaf, size_t index) { return leaf.densities[index]; }));
  grids.push_back(GridOf<nanovdb::Vec3f>(volume, map, "Cd", nanovdb::GridClass::Unknown,
                                         [](const VolumeLeaf& leaf, size_t index) {
                                           const Vec3& color = leaf.colors[index];
                                           return nanovdb::Vec3f(color.x, color.y, color.z);
                                         }));
  // writeGrids begins behind the headers, and a stream of a text cannot go beyond its end.
  constexpr size_t kHeaders = 4096;
  std::ostringstream file(std::string(kHeaders + grids[0].size() + grids[1].size(), '\0'));
  nanovdb::io::writeGrids(file, grids);
  const std::streamoff size = file.tellp();
  std::string bytes = std::move(file).str();
  bytes.resize(static_cast<size_t>(size));
  return bytes;
}

}  // namespace nerf
