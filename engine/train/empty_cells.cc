#include "engine/train/empty_cells.h"

#include <algorithm>
#include <cmath>

#include "engine/field/kernels/occupancy_update.h"

namespace nerf {
namespace {

constexpr size_t kMostViews = 100;
constexpr int kMostSide = 256;  // of a silhouette: 0.3 MB
constexpr int kMinClear = 2, kViewsPerClear = 10;
// Smaller cells are tested eight at a time.
constexpr int kFinestResolution = 128;

enum class Sight { kNone, kClear, kOther };

// Where a view has any alpha, at a whole fraction of its size.
class Silhouette {
 public:
  Silhouette() = default;
  Silhouette(const View& view, std::span<const uint8_t> pixels)
      : axes_{view.camera.camera_to_world.Column(0), view.camera.camera_to_world.Column(1),
              view.camera.camera_to_world.Column(2)},
        position_(view.camera.camera_to_world.Column(3)) {
    const Camera& camera = view.camera;
    const int factor = (std::max(camera.width, camera.height) + kMostSide - 1) / kMostSide;
    width_ = (camera.width + factor - 1) / factor;
    height_ = (camera.height + factor - 1) / factor;
    whole_width_ = camera.width / factor;
    whole_height_ = camera.height / factor;
    scale_ = 1 / static_cast<float>(factor);
    fl_x_ = camera.fl_x * scale_, fl_y_ = camera.fl_y * scale_;
    cx_ = camera.cx * scale_, cy_ = camera.cy * scale_;
    std::vector<uint8_t> shown(static_cast<size_t>(width_) * height_);
    for (int y = 0; y < camera.height; ++y) {
      const uint8_t* alpha = pixels.data() + size_t{4} * y * camera.width + 3;
      uint8_t* const row = shown.data() + static_cast<size_t>(y / factor) * width_;
      for (int x = 0; x < camera.width; ++x, alpha += 4) row[x / factor] |= *alpha;
    }
    sums_.resize(static_cast<size_t>(width_ + 1) * (height_ + 1));
    for (int y = 0; y < height_; ++y) {
      uint32_t* const sums = sums_.data() + static_cast<size_t>(y + 1) * (width_ + 1);
      for (int x = 0; x < width_; ++x) {
        sums[x + 1] = sums[x] + sums[x - width_] - sums[x - width_ - 1] +
                      (shown[static_cast<size_t>(y) * width_ + x] != 0);
      }
    }
  }

  // What the picture shows of a ball and one pixel around it. One that shows nothing at all says
  // nothing: whoever cut it out has failed.
  Sight See(Vec3 center, float radius) const {
    if (sums_.back() == 0) return Sight::kNone;
    const Vec3 offset = center - position_;
    const float depth = -Dot(axes_[2], offset);
    if (depth <= 1.01f * radius) return Sight::kNone;
    const Range x = Project(Dot(axes_[0], offset), depth, radius, fl_x_, cx_);
    const Range y = Project(-Dot(axes_[1], offset), depth, radius, fl_y_, cy_);
    if (x.end <= 0 || y.end <= 0 || x.begin >= width_ || y.begin >= height_) return Sight::kNone;
    if (x.begin < 0 || y.begin < 0 || x.end > whole_width_ || y.end > whole_height_)
      return Sight::kOther;
    const auto sum = [&](float column, float row) {
      return sums_[static_cast<size_t>(row) * (width_ + 1) + static_cast<size_t>(column)];
    };
    const uint32_t n =
        sum(x.end, y.end) - sum(x.begin, y.end) - sum(x.end, y.begin) + sum(x.begin, y.begin);
    return n == 0 ? Sight::kClear : Sight::kOther;
  }

 private:
  struct Range {
    float begin, end;  // whole numbers
  };
  // The pixels along an axis that a ball at `across` and `depth` covers.
  Range Project(float across, float depth, float radius, float focal, float principal) const {
    const float square = depth * depth - radius * radius;
    const float half = radius * std::sqrt(across * across + square) / square;
    const float middle = across * depth / square;
    return {std::floor(focal * (middle - half) + principal - scale_),
            std::ceil(focal * (middle + half) + principal + scale_)};
  }

  Vec3 axes_[3], position_;
  int width_ = 0, height_ = 0;
  int whole_width_ = 0, whole_height_ = 0;  // of them, those with all their pixels
  float scale_ = 1;                         // of pictures to silhouettes
  float fl_x_ = 0, fl_y_ = 0, cx_ = 0, cy_ = 0;
  std::vector<uint32_t> sums_;  // [height + 1][width + 1]: pixels above and to the left with alpha
};

bool Tells(const View& view, const View& first) {
  const Camera& c = view.camera;
  return TellsEmptyCells(c, first.camera) && view.image.n_channels == 4 &&
         view.image.width == c.width && view.image.height == c.height;
}

bool IsEmpty(const std::vector<Silhouette>& silhouettes, Vec3 center, float radius) {
  int n_seen = 0, n_clear = 0;
  for (const Silhouette& silhouette : silhouettes) {
    const Sight sight = silhouette.See(center, radius);
    n_seen += sight != Sight::kNone;
    n_clear += sight == Sight::kClear;
  }
  return n_clear >= kMinClear && kViewsPerClear * n_clear >= n_seen;
}

// Tests a cube of `side` cells of a block, whose first cell is (x, y, z), then its parts.
uint64_t EmptyPart(const std::vector<Silhouette>& silhouettes, Vec3 corner, float cell_size,
                   int side, int finest, int x, int y, int z) {
  const float half = 0.5f * static_cast<float>(side) * cell_size;
  const Vec3 at =
      corner +
      Vec3{static_cast<float>(x), static_cast<float>(y), static_cast<float>(z)} * cell_size;
  if (IsEmpty(silhouettes, at + Vec3{half, half, half}, 1.7320508f * half)) {
    const uint64_t row = (uint64_t{1} << side) - 1;
    uint64_t cells = 0;
    for (int dz = 0; dz < side; ++dz)
      for (int dy = 0; dy < side; ++dy) cells |= row << (x + 4 * (y + dy) + 16 * (z + dz));
    return cells;
  }
  uint64_t cells = 0;
  const int part = side / 2;
  for (int i = 0; i < 8 && part >= finest; ++i) {
    cells |= EmptyPart(silhouettes, corner, cell_size, part, finest, x + part * (i & 1),
                       y + part * (i >> 1 & 1), z + part * (i >> 2));
  }
  return cells;
}

}  // namespace

bool TellsEmptyCells(const Camera& camera, const Camera& other) {
  const Camera& c = camera;
  return c.lens == LensModel::kPinhole && c.k1 == 0 && c.k2 == 0 && c.k3 == 0 && c.p1 == 0 &&
         c.p2 == 0 && c.k4 == 0 && c.k5 == 0 && c.k6 == 0 && c.time == other.time;
}

std::vector<uint64_t> FindEmptyCells(std::span<const View> views, const PixelsOfView& pixels,
                                     const OccupancyGrid& grid, ThreadPool* pool,
                                     const std::stop_token& stop) {
  const auto tells = [&](const View& view) { return Tells(view, views[0]); };
  if (views.empty() || !std::all_of(views.begin(), views.end(), tells)) return {};
  const size_t n_views = std::min(views.size(), kMostViews);
  std::vector<Silhouette> silhouettes(n_views);
  pool->ParallelFor(static_cast<int64_t>(n_views), [&](int64_t i, int) {
    if (stop.stop_requested()) return;
    const size_t view = static_cast<size_t>(i) * views.size() / n_views;
    silhouettes[i] = Silhouette(views[view], pixels(view));
  });
  const size_t side = grid.resolution / 4, level_blocks = side * side * side;
  const int finest = grid.resolution > kFinestResolution ? 2 : 1;
  std::vector<uint64_t> empty(grid.occupied_blocks.size());
  pool->ParallelFor(static_cast<int64_t>(empty.size() / side), [&](int64_t row, int) {
    if (stop.stop_requested()) return;
    for (size_t b = row * side; b < (row + 1) * side; ++b) {
      const int level = static_cast<int>(b / level_blocks);
      const size_t block = b % level_blocks;
      if (kernels::IsCoveredBlock(level, block, static_cast<uint32_t>(side))) continue;
      const Aabb box = grid.box.Scaled(static_cast<float>(1 << level));
      const float cell_size = box.Size().x / static_cast<float>(grid.resolution);
      const Vec3 first{static_cast<float>(block % side), static_cast<float>(block / side % side),
                       static_cast<float>(block / (side * side))};
      empty[b] =
          EmptyPart(silhouettes, box.min + first * (4 * cell_size), cell_size, 4, finest, 0, 0, 0);
    }
  });
  if (stop.stop_requested()) return {};
  // Poses that do not fit the pictures leave no cell to learn in. The innermost box is what they
  // are of.
  const bool leaves_cells = std::any_of(empty.begin(), empty.begin() + level_blocks,
                                        [](uint64_t cells) { return ~cells != 0; });
  return leaves_cells ? empty : std::vector<uint64_t>();
}

}  // namespace nerf
