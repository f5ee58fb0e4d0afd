#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/base/parallel_for.h"

namespace nerf {

// 256 numbers, ascending, each of which stands for those next to it.
using Codebook = std::array<float, 256>;

// By k-means, so that the squares of the errors are small. Requires: numbers.
Codebook MakeCodebook(std::vector<float> numbers);
uint8_t NearestIn(const Codebook& codebook, float number);

// Rows that stand for others.
struct Palette {
  std::vector<float> rows;       // [n_colors, n_columns]
  std::vector<uint16_t> labels;  // of each row that was given
};

// By k-means in two steps, about sqrt(n_colors) groups and then groups within these, each begun at
// rows that are evenly chosen. The same for any number of threads. Shapes: rows [n, n_columns].
// Requires: 1 <= n_colors <= min(n, 65536).
Palette MakePalette(const std::vector<float>& rows, size_t n_columns, size_t n_colors,
                    ThreadPool* pool);

}  // namespace nerf
