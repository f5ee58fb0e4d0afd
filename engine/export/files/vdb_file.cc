#include "engine/export/files/vdb_file.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/export/files/little_endian.h"

namespace nerf {
namespace {

// Numbers of the format.
constexpr int64_t kVdbMagic = 0x56444220;
constexpr uint32_t kFileVersion = 224, kLibraryMajor = 10, kLibraryMinor = 0;
constexpr uint32_t kActiveMaskCompression = 2;
constexpr char kInactiveIsBackground = 0;
constexpr int kUpperLog2 = 5, kLowerLog2 = 4, kLeafLog2 = 3;                // children along a side
constexpr std::string_view kNoId = "00000000-0000-4000-8000-000000000000";  // equal files: no id

void AppendText(std::string_view text, std::string* bytes) {
  AppendNumbers(bytes, static_cast<uint32_t>(text.size()));
  *bytes += text;
}

void AppendMetadata(std::string_view name, std::string_view text, std::string* bytes) {
  AppendText(name, bytes);
  AppendText("string", bytes);
  AppendText(text, bytes);
}

// One bit for each child of a node.
class NodeMask {
 public:
  explicit NodeMask(int log2_side) : words_((size_t{1} << 3 * log2_side) / 64) {}
  void Set(uint32_t child) { words_[child / 64] |= uint64_t{1} << child % 64; }
  void AppendTo(std::string* bytes) const {
    for (const uint64_t word : words_) AppendNumbers(bytes, word);
  }

 private:
  std::vector<uint64_t> words_;
};

// The number of the child of a node that holds a point; children have 2^child_log2 points a side.
uint32_t ChildOf(const std::array<int, 3>& point, int log2_side, int child_log2) {
  uint32_t child = 0;
  for (const int coordinate : point) {
    child = child << log2_side |
            (static_cast<uint32_t>(coordinate) >> child_log2 & ((1u << log2_side) - 1));
  }
  return child;
}

// Leaves by their number in the lower node, these by their number in the upper node, of which there
// is one.
using Tree = std::map<uint32_t, std::map<uint32_t, const VolumeLeaf*>>;

Tree TreeOf(const Volume& volume) {
  Tree tree;
  for (const VolumeLeaf& leaf : volume.leaves) {
    tree[ChildOf(leaf.origin, kUpperLog2, kLowerLog2 + kLeafLog2)]
        [ChildOf(leaf.origin, kLowerLog2, kLeafLog2)] = &leaf;
  }
  return tree;
}

// The masks of a node that has children alone.
template <typename Children>
void AppendInnerNode(const Children& children, int log2_side, std::string* bytes) {
  NodeMask mask(log2_side);
  for (const auto& [number, child] : children) mask.Set(number);
  mask.AppendTo(bytes);
  NodeMask(log2_side).AppendTo(bytes);  // no values
  *bytes += kInactiveIsBackground;
}

void AppendLeafMask(const VolumeLeaf& leaf, std::string* bytes) {
  for (const uint64_t word : leaf.active) AppendNumbers(bytes, word);
}

// From numbers of points to the frame of the file: rows are multiplied from the left.
void AppendTransform(const SampleGrid& grid, const ExportAxes& axes, std::string* bytes) {
  AppendText("AffineMap", bytes);
  const Vec3 origin = axes.Point(grid.PointAt(0, 0, 0));
  constexpr int kFar = 1024;  // points: their distance has more digits than that of two
  const Vec3 ends[] = {axes.Point(grid.PointAt(kFar, 0, 0)), axes.Point(grid.PointAt(0, kFar, 0)),
                       axes.Point(grid.PointAt(0, 0, kFar))};
  for (const Vec3& end : ends) {
    for (int axis = 0; axis < 3; ++axis) {
      AppendNumbers(bytes, (double{end[axis]} - double{origin[axis]}) / kFar);
    }
    AppendNumbers(bytes, 0.0);
  }
  const Vec3d first = axes.PointFromZero(grid.PointAt(0, 0, 0));
  AppendNumbers(bytes, first[0], first[1], first[2], 1.0);
}

// Appends a grid behind its descriptor. `values` appends those of a leaf.
template <typename Values>
void AppendGrid(std::string_view name, std::string_view type, int value_bytes, const Tree& tree,
                const std::string& transform, const Values& values, std::string* bytes) {
  AppendText(name, bytes);
  AppendText(type, bytes);
  AppendText("", bytes);  // an instance of no other grid
  const size_t offsets_at = bytes->size();
  AppendNumbers(bytes, int64_t{0}, int64_t{0}, int64_t{0});
  const auto grid_at = static_cast<int64_t>(bytes->size());
  AppendNumbers(bytes, kActiveMaskCompression, uint32_t{2});  // entries of metadata
  AppendMetadata("class", "fog volume", bytes);
  AppendMetadata("name", name, bytes);
  *bytes += transform;
  AppendNumbers(bytes, uint32_t{1});                      // buffer
  bytes->append(static_cast<size_t>(value_bytes), '\0');  // background
  AppendNumbers(bytes, uint32_t{0}, uint32_t{1});         // tiles, upper nodes
  AppendNumbers(bytes, int32_t{0}, int32_t{0}, int32_t{0});
  AppendInnerNode(tree, kUpperLog2, bytes);
  for (const auto& [number, leaves] : tree) {
    AppendInnerNode(leaves, kLowerLog2, bytes);
    for (const auto& [place, leaf] : leaves) AppendLeafMask(*leaf, bytes);
  }
  const auto blocks_at = static_cast<int64_t>(bytes->size());
  for (const auto& [number, leaves] : tree) {
    for (const auto& [place, leaf] : leaves) {
      AppendLeafMask(*leaf, bytes);
      *bytes += kInactiveIsBackground;
      values(*leaf);
    }
  }
  const int64_t offsets[] = {grid_at, blocks_at, static_cast<int64_t>(bytes->size())};
  std::memcpy(bytes->data() + offsets_at, offsets, sizeof(offsets));
}

}  // namespace

std::string VolumeVdb(const Volume& volume, const ExportAxes& axes) {
  const Tree tree = TreeOf(volume);
  std::string transform;
  AppendTransform(volume.grid, axes, &transform);
  std::string bytes;
  AppendNumbers(&bytes, kVdbMagic, kFileVersion, kLibraryMajor, kLibraryMinor, char{1});
  bytes += kNoId;
  AppendNumbers(&bytes, uint32_t{1});
  AppendMetadata("creator", "nerf-engine export", &bytes);
  AppendNumbers(&bytes, uint32_t{2});  // grids
  AppendGrid(
      "density", "Tree_float_5_4_3", sizeof(float), tree, transform,
      [&](const VolumeLeaf& leaf) {
        for (const float density : leaf.densities) AppendNumbers(&bytes, density);
      },
      &bytes);
  AppendGrid(
      "Cd", "Tree_vec3s_5_4_3", sizeof(Vec3), tree, transform,
      [&](const VolumeLeaf& leaf) {
        for (const Vec3& color : leaf.colors) AppendVector(&bytes, color);
      },
      &bytes);
  return bytes;
}

}  // namespace nerf
