#include "engine/methods/ngp/lane_output.h"

#include <algorithm>
#include <cstring>

#include "engine/field/kernels/hash_encoding.h"
#include "engine/methods/ngp/buffer_rows.h"
#include "engine/methods/ngp/describe/ngp_settings.h"

namespace nerf {
namespace {

constexpr size_t kTile = kernels::kHashTile;

// tiles[i / 16][level][i % 16][f] = rows[i - first][level][f] for i in [first, first + n).
template <int n_features>
void CopyToTiles(size_t first, int n, const float* rows, float* tiles) {
  for (size_t i = first; i < first + n; ++i, rows += kEncodingWidth) {
    float* const to = tiles + i / kTile * kTile * kEncodingWidth + i % kTile * n_features;
    for (int f = 0; f < kEncodingWidth; f += n_features)
      std::memcpy(to + kTile * f, rows + f, n_features * sizeof(float));
  }
}

}  // namespace

void LaneOutput::Append(int n, const Vec3* unit, int n_features, const float* gradients) {
  const size_t n_before = positions.size(), n_tiles = (n_before + n + kTile - 1) / kTile;
  positions.insert(positions.end(), unit, unit + n);
  const size_t n_floats = n_tiles * kTile * kEncodingWidth;
  const size_t size = grad_encodings.size();
  if (size < n_floats) Grow(&grad_encodings, size, std::max(n_floats, 2 * size));
  if (n_features == 4) {
    CopyToTiles<4>(n_before, n, gradients, grad_encodings.data());
  } else {
    CopyToTiles<2>(n_before, n, gradients, grad_encodings.data());
  }
}

void LaneOutput::Scatter(const kernels::HashGridShape& shape, int level,
                         LevelGradients* gradients) const {
  kernels::cpu::HashEncodeBackward(
      {.shape = &shape,
       .level = level,
       .n = static_cast<int>(positions.size()),
       .positions = positions.data(),
       .grad_features = grad_encodings.data() + kernels::kHashTile * shape.n_features * level,
       .tile_stride = kernels::kHashTile * kEncodingWidth,
       .grad_table = gradients->values.data(),
       .touched = gradients->touched.data()});
}

void LaneOutput::Clear() {
  ChunkSums::Clear();
  positions.clear();
}

}  // namespace nerf
