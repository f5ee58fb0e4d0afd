#pragma once

#include <vector>

#include "engine/export/files/file_splats.h"

namespace nerf {

// What compressed files of splats have in common.

// The splats in Morton's order of their positions, so that numbers beside each other are alike.
std::vector<FileSplat> SplatsInOrder(const FileSplats& splats);

// A rotation without the largest component of its quaternion, whose sign is that of the whole.
struct SmallestThree {
  int largest = 0;
  float rest[3];  // in the order of the components; at most sqrt(1/2)
};
// q: of length 1.
SmallestThree SmallestThreeOf(const float (&q)[4]);

}  // namespace nerf
