#include "engine/field/kernels/hash_position_gradient.h"

#include <algorithm>
#include <cmath>

namespace nerf::kernels::cpu {
namespace {

constexpr int kCorners = 8;

// A point's cell at one level: where its eight corners lie in the table, bits 0, 1 and 2 of a
// corner's number being set on the far side along x, y and z, and the shares of those sides.
struct Cell {
  uint32_t entries[kCorners];
  float far[3], near[3];
};

Cell FindCell(const HashGridShape& shape, int level, Vec3 position) {
  Cell cell;
  uint32_t low[3];
  const int resolution = shape.resolution[level];
  for (int axis = 0; axis < 3; ++axis) {
    const float scaled = std::clamp(position[axis], 0.0f, 1.0f) * static_cast<float>(resolution);
    const float floor = std::min(std::floor(scaled), static_cast<float>(resolution - 1));
    low[axis] = static_cast<uint32_t>(floor);
    cell.far[axis] = scaled - floor;
    cell.near[axis] = 1 - cell.far[axis];
  }
  const bool dense = shape.IsDense(level);
  for (int c = 0; c < kCorners; ++c) {
    cell.entries[c] =
        HashGridEntry(low[0] + (c & 1), low[1] + ((c >> 1) & 1), low[2] + (c >> 2),
                      static_cast<uint32_t>(resolution) + 1, dense, shape.entries() - 1);
  }
  return cell;
}

float ToFloat(float value) { return value; }
float ToFloat(Half value) { return FloatFromHalf(value); }

template <typename T>
void Gradient(const HashPositionGradientParams<T>& params) {
  const HashGridShape& shape = *params.shape;
  const int n_levels = std::min(shape.n_levels, params.n_active);
  for (int i = 0; i < params.n; ++i) {
    Vec3 sum;
    for (int level = 0; level < n_levels; ++level) {
      const Cell cell = FindCell(shape, level, params.positions[i]);
      const T* const table = params.table + shape.level_size() * level;
      const float* const gradient = params.grad_features + static_cast<size_t>(params.stride) * i +
                                    static_cast<size_t>(shape.n_features) * level;
      float pulls[kCorners];
      for (int c = 0; c < kCorners; ++c) {
        const T* const entry = table + static_cast<size_t>(shape.n_features) * cell.entries[c];
        pulls[c] = 0;
        for (int f = 0; f < shape.n_features; ++f) pulls[c] += gradient[f] * ToFloat(entry[f]);
      }
      sum = sum + GradientInCell(cell.near, cell.far, pulls) *
                      static_cast<float>(shape.resolution[level]);
    }
    params.grad_positions[i] = sum;
  }
}

}  // namespace

void HashPositionGradient(const HashPositionGradientParams<float>& params) { Gradient(params); }
void HashPositionGradient(const HashPositionGradientParams<Half>& params) { Gradient(params); }

}  // namespace nerf::kernels::cpu
