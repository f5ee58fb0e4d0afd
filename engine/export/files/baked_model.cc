#include "engine/export/files/baked_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <memory>
#include <numbers>
#include <utility>

#include "engine/export/files/seen_color.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr int kMostNodesPerCell = 3;
constexpr int kMaxBlockNodes = 13 * 13 * 13;
constexpr int kMaxBakedResolution = 128;  // of the grid: finer ones would have too many nodes
constexpr int kMaxDirections = 16;        // that a node's color is fitted to
constexpr int kBakedHorizon = 256;        // rows
constexpr size_t kHorizonBytes = size_t{3} * 2 * kBakedHorizon * kBakedHorizon;
constexpr size_t kNodeBytes = 4 + 9, kTexelBytes = 16;

struct BlockPlace {
  int level = 0;
  int cell[3] = {0, 0, 0};  // the lowest, within the level
  float cell_size = 0;
  Vec3 origin;  // of that cell
};

BlockPlace PlaceOf(const OccupancyGrid& grid, size_t block) {
  const size_t side = grid.resolution / 4;
  BlockPlace place;
  place.level = static_cast<int>(block / (side * side * side));
  const size_t in_level = block % (side * side * side);
  place.cell[0] = static_cast<int>(in_level % side) * 4;
  place.cell[1] = static_cast<int>(in_level / side % side) * 4;
  place.cell[2] = static_cast<int>(in_level / side / side) * 4;
  const Aabb box = grid.box.Scaled(static_cast<float>(1 << place.level));
  place.cell_size = box.Size().x / static_cast<float>(grid.resolution);
  for (int axis = 0; axis < 3; ++axis) {
    place.origin[axis] = box.min[axis] + place.cell_size * static_cast<float>(place.cell[axis]);
  }
  return place;
}

// Whether a cube around a point reaches into the box.
bool ReachesInto(const CropBox& crop, Vec3 center, float half_side) {
  for (const Vec3& axis : crop.axes) {
    const float reach = half_side * (std::abs(axis.x) + std::abs(axis.y) + std::abs(axis.z));
    if (std::abs(Dot(axis, center - crop.center)) > 1 + reach) return false;
  }
  return true;
}

// Whether a camera sees the cell or one beside it.
bool IsSeen(const SeenCells& seen, int level, int x, int y, int z) {
  for (int dz = -1; dz <= 1; ++dz) {
    for (int dy = -1; dy <= 1; ++dy) {
      for (int dx = -1; dx <= 1; ++dx) {
        if (seen.CamerasOf(level, x + dx, y + dy, z + dz) != 0) return true;
      }
    }
  }
  return false;
}

// The grid without cells that no camera sees or the crop leaves out.
OccupancyGrid GridToBake(const OccupancyGrid& all, const SeenCells& seen,
                         const std::optional<CropBox>& crop) {
  OccupancyGrid grid = all;
  for (size_t block = 0; block < grid.occupied_blocks.size(); ++block) {
    uint64_t& bits = grid.occupied_blocks[block];
    const BlockPlace place = PlaceOf(grid, block);
    for (uint64_t left = bits; left != 0; left &= left - 1) {
      const int bit = std::countr_zero(left);
      const int x = bit & 3, y = bit >> 2 & 3, z = bit >> 4;
      const Vec3 middle{static_cast<float>(x) + 0.5f, static_cast<float>(y) + 0.5f,
                        static_cast<float>(z) + 0.5f};
      const bool is_kept =
          IsSeen(seen, place.level, place.cell[0] + x, place.cell[1] + y, place.cell[2] + z) &&
          (!crop.has_value() ||
           ReachesInto(*crop, place.origin + middle * place.cell_size, 0.5f * place.cell_size));
      if (!is_kept) bits &= ~(uint64_t{1} << bit);
    }
  }
  return grid;
}

// The grid of cells of twice the side, occupied where one of their eight is.
OccupancyGrid OfTwiceTheCells(const OccupancyGrid& fine) {
  OccupancyGrid grid = FullOccupancyGrid(fine.box, fine.n_levels, fine.resolution / 2);
  std::fill(grid.occupied_blocks.begin(), grid.occupied_blocks.end(), 0);
  const size_t side = grid.resolution / 4;
  for (size_t block = 0; block < fine.occupied_blocks.size(); ++block) {
    const BlockPlace place = PlaceOf(fine, block);
    for (uint64_t left = fine.occupied_blocks[block]; left != 0; left &= left - 1) {
      const int bit = std::countr_zero(left);
      const int x = (place.cell[0] + (bit & 3)) / 2, y = (place.cell[1] + (bit >> 2 & 3)) / 2,
                z = (place.cell[2] + (bit >> 4)) / 2;
      const size_t at = ((place.level * side + z / 4) * side + y / 4) * side + x / 4;
      grid.occupied_blocks[at] |= uint64_t{1} << (x % 4 + 4 * (y % 4) + 16 * (z % 4));
    }
  }
  return grid;
}

// Calls visit for each node of the cell of this bit, those on its faces included.
template <typename Visit>
void ForNodes(int bit, int per_cell, const Visit& visit) {
  const int side = 4 * per_cell + 1;
  const int x = (bit & 3) * per_cell, y = (bit >> 2 & 3) * per_cell, z = (bit >> 4) * per_cell;
  for (int dz = 0; dz <= per_cell; ++dz) {
    for (int dy = 0; dy <= per_cell; ++dy) {
      for (int dx = 0; dx <= per_cell; ++dx) visit(((z + dz) * side + y + dy) * side + x + dx);
    }
  }
}

// A block's nodes, in the order of BlockNodes.
struct BakedBlock {
  uint64_t bits = 0;  // of the cells that hold something
  std::vector<uint8_t> base;
  std::vector<uint8_t> slopes[3];
};

// Bakes one block at a time.
class BlockBaker {
 public:
  BlockBaker(const MarchedModel& model, const BakePlan& plan)
      : model_(model),
        plan_(plan),
        per_cell_(plan.nodes_per_cell),
        workspace_(model.field().NewWorkspace(kMaxBlockNodes)) {}

  BakedBlock Bake(size_t block) {
    place_ = PlaceOf(plan_.grid, block);
    BakedBlock baked;
    std::array<uint8_t, kMaxBlockNodes> densities;
    Evaluate(plan_.grid.occupied_blocks[block]);
    for (size_t i = 0; i < nodes_.size(); ++i) densities[nodes_[i]] = DensityByte(sigmas_[i]);
    for (uint64_t left = plan_.grid.occupied_blocks[block]; left != 0; left &= left - 1) {
      bool holds = false;
      ForNodes(std::countr_zero(left), per_cell_, [&](int node) { holds |= densities[node] > 0; });
      if (holds) baked.bits |= left & -left;
    }
    if (baked.bits != 0) BakeNodes(&baked);
    return baked;
  }

 private:
  uint8_t DensityByte(float sigma) const {
    const float spacing = place_.cell_size / static_cast<float>(per_cell_);
    return kBakedDensity.Byte(std::log(std::max(sigma * spacing, 1e-30f)));
  }

  std::array<int, 3> CoordinatesOf(int node) const {
    const int side = 4 * per_cell_ + 1;
    return {node % side, node / side % side, node / side / side};
  }

  // Nodes, positions and densities of the cells of these bits.
  void Evaluate(uint64_t bits) {
    nodes_ = BlockNodes(bits, per_cell_);
    positions_.clear();
    const float spacing = place_.cell_size / static_cast<float>(per_cell_);
    for (const int node : nodes_) {
      const auto [x, y, z] = CoordinatesOf(node);
      const Vec3 at{static_cast<float>(x), static_cast<float>(y), static_cast<float>(z)};
      positions_.push_back(place_.origin + at * spacing);
    }
    sigmas_.resize(nodes_.size());
    model_.field().Density(static_cast<int>(nodes_.size()), positions_.data(), sigmas_.data(),
                           workspace_.get());
  }

  // The cameras that see a cell beside the node, or one beside that.
  uint64_t CamerasOf(int node) const {
    const int n_seen = model_.grid().resolution / plan_.grid.resolution;  // along a cell's side
    const std::array<int, 3> at = CoordinatesOf(node);
    int low[3], high[3];
    for (int axis = 0; axis < 3; ++axis) {
      low[axis] = n_seen * (place_.cell[axis] + (at[axis] + per_cell_ - 1) / per_cell_ - 2);
      high[axis] = n_seen * (place_.cell[axis] + at[axis] / per_cell_ + 2) - 1;
    }
    uint64_t cameras = 0;
    for (int z = low[2]; z <= high[2]; ++z) {
      for (int y = low[1]; y <= high[1]; ++y) {
        for (int x = low[0]; x <= high[0]; ++x) {
          cameras |= plan_.seen.CamerasOf(place_.level, x, y, z);
        }
      }
    }
    return cameras;
  }

  void BakeNodes(BakedBlock* baked) {
    Evaluate(baked->bits);
    samples_.clear();
    directions_.clear();
    std::vector<size_t> ends;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      AddDirections(static_cast<int>(i), CamerasOf(nodes_[i]));
      ends.push_back(samples_.size());
    }
    colors_.resize(samples_.size());
    model_.field().Color(static_cast<int>(samples_.size()), samples_.data(), directions_.data(),
                         colors_.data(), workspace_.get());
    for (size_t i = 0, begin = 0; i < nodes_.size(); begin = ends[i++]) {
      const size_t n = ends[i] - begin;
      const SeenColor color = FitSeenColor(std::span(directions_).subspan(begin, n),
                                           std::span(colors_).subspan(begin, n));
      for (int channel = 0; channel < 3; ++channel) {
        baked->base.push_back(kBakedBase.Byte(color.base[channel]));
        for (int axis = 0; axis < 3; ++axis) {
          baked->slopes[axis].push_back(kBakedSlope.Byte(color.slope[axis][channel]));
        }
      }
      baked->base.push_back(DensityByte(sigmas_[i]));
    }
  }

  // From up to kMaxDirections of the cameras.
  void AddDirections(int sample, uint64_t cameras) {
    const int n = std::popcount(cameras), n_wanted = std::min(n, kMaxDirections);
    for (int i = 0, taken = 0; cameras != 0; cameras &= cameras - 1, ++i) {
      if (i * n_wanted / n < taken) continue;
      ++taken;
      const Vec3 way = positions_[sample] - plan_.seen.positions()[std::countr_zero(cameras)];
      samples_.push_back(sample);
      directions_.push_back(way * (1 / std::max(Norm(way), 1e-9f)));
    }
  }

  const MarchedModel& model_;
  const BakePlan& plan_;
  const int per_cell_;
  std::unique_ptr<RadianceField::Workspace> workspace_;
  BlockPlace place_;
  std::vector<int> nodes_;
  std::vector<Vec3> positions_;  // of the nodes
  std::vector<float> sigmas_;
  std::vector<int> samples_;
  std::vector<Vec3> directions_, colors_;  // of the samples
};

std::vector<uint8_t> BakedHorizon(const RadianceField& field, ThreadPool* pool) {
  constexpr int kWidth = 2 * kBakedHorizon;
  std::vector<uint8_t> bytes(kHorizonBytes);
  pool->ParallelFor(kBakedHorizon, [&](int64_t row, int /*thread*/) {
    const auto workspace = field.NewWorkspace(kWidth);
    std::vector<Vec3> directions, colors(kWidth);
    const float down = std::numbers::pi_v<float> * (static_cast<float>(row) + 0.5f) / kBakedHorizon;
    for (int column = 0; column < kWidth; ++column) {
      const float around =
          std::numbers::pi_v<float> * (2 * (static_cast<float>(column) + 0.5f) / kWidth - 1);
      directions.push_back(
          {std::sin(down) * std::cos(around), std::sin(down) * std::sin(around), std::cos(down)});
    }
    field.Background(kWidth, directions.data(), colors.data(), workspace.get());
    for (int i = 0; i < 3 * kWidth; ++i) {
      bytes[3 * kWidth * row + i] = ByteRange{}.Byte(colors[i / 3][i % 3]);
    }
  });
  return bytes;
}

void Append(const std::vector<uint8_t>& more, std::vector<uint8_t>* bytes) {
  bytes->insert(bytes->end(), more.begin(), more.end());
}

absl::Status NothingToBake() {
  return absl::InvalidArgumentError("nothing to bake: no photograph shows a density there");
}

}  // namespace

uint8_t ByteRange::Byte(float value) const {
  return static_cast<uint8_t>(
      std::lround(255 * std::clamp((value - low) / (high - low), 0.0f, 1.0f)));
}

std::vector<int> BlockNodes(uint64_t bits, int nodes_per_cell) {
  std::array<bool, kMaxBlockNodes> is_used = {};
  for (; bits != 0; bits &= bits - 1) {
    ForNodes(std::countr_zero(bits), nodes_per_cell, [&](int node) { is_used[node] = true; });
  }
  std::vector<int> nodes;
  for (int node = 0; node < kMaxBlockNodes; ++node) {
    if (is_used[node]) nodes.push_back(node);
  }
  return nodes;
}

absl::StatusOr<BakePlan> PlanBaking(const MarchedModel& model, const SceneGeometry& geometry,
                                    std::span<const Camera> cameras,
                                    const std::optional<CropBox>& crop, float min_transmittance,
                                    ThreadPool* pool, const std::stop_token& stop) {
  SeenCells seen(model, geometry, cameras, min_transmittance, pool, stop);
  if (stop.stop_requested()) return absl::CancelledError("the export was interrupted");
  OccupancyGrid grid = GridToBake(model.grid(), seen, crop);
  while (grid.resolution > kMaxBakedResolution) grid = OfTwiceTheCells(grid);
  size_t n_cells = 0;
  for (const uint64_t bits : grid.occupied_blocks) n_cells += std::popcount(bits);
  if (n_cells == 0) return NothingToBake();
  const auto texels = [](size_t per_cell) {
    return (per_cell + 1) * (per_cell + 1) * (per_cell + 1);
  };
  int per_cell = kMostNodesPerCell;
  while (per_cell > 0 && n_cells * texels(per_cell) * kTexelBytes > kMaxBakedTextures) --per_cell;
  if (per_cell == 0) {
    return absl::ResourceExhaustedError(
        fmt::format("a baked model has at most {} cells, this one {}: take a --crop",
                    kMaxBakedTextures / texels(1) / kTexelBytes, n_cells));
  }
  size_t n_nodes = 0;
  for (const uint64_t bits : grid.occupied_blocks) {
    if (bits != 0) n_nodes += BlockNodes(bits, per_cell).size();
  }
  const size_t n_bytes = n_nodes * kNodeBytes +
                         grid.occupied_blocks.size() * (sizeof(uint64_t) + sizeof(uint8_t)) +
                         (model.field().HasBackground() ? kHorizonBytes : 0);
  return BakePlan{std::move(seen), std::move(grid), per_cell, n_cells, n_bytes};
}

absl::StatusOr<BakedModel> BakeModel(const MarchedModel& model, const BakePlan& plan,
                                     ThreadPool* pool, const std::stop_token& stop,
                                     const ExportProgress& progress) {
  BakedModel baked{.nodes_per_cell = plan.nodes_per_cell, .grid = plan.grid};
  std::vector<BlockBaker> bakers;
  for (int i = 0; i < pool->n_threads(); ++i) bakers.emplace_back(model, plan);
  std::vector<uint64_t>& all_bits = baked.grid.occupied_blocks;
  std::vector<uint8_t> slopes[3];
  constexpr size_t kAtOnce = 1024;
  for (size_t begin = 0; begin < all_bits.size(); begin += kAtOnce) {
    progress("nodes", static_cast<double>(begin) / static_cast<double>(all_bits.size()));
    std::vector<BakedBlock> blocks(std::min(kAtOnce, all_bits.size() - begin));
    pool->ParallelFor(static_cast<int64_t>(blocks.size()), [&](int64_t i, int thread) {
      if (all_bits[begin + i] == 0 || stop.stop_requested()) return;
      blocks[i] = bakers[thread].Bake(begin + i);
    });
    for (size_t i = 0; i < blocks.size(); ++i) {
      all_bits[begin + i] = blocks[i].bits;
      Append(blocks[i].base, &baked.base);
      for (int axis = 0; axis < 3; ++axis) Append(blocks[i].slopes[axis], &slopes[axis]);
    }
  }
  if (stop.stop_requested()) return absl::CancelledError("the export was interrupted");
  if (baked.base.empty()) return NothingToBake();
  for (const std::vector<uint8_t>& axis : slopes) Append(axis, &baked.slopes);
  baked.empty_distances = EmptyDistances(baked.grid);
  if (model.field().HasBackground()) {
    baked.horizon_height = kBakedHorizon;
    baked.horizon = BakedHorizon(model.field(), pool);
  }
  return baked;
}

}  // namespace nerf
