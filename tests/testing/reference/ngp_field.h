#pragma once

#include <vector>

#include "engine/base/vec3.h"
#include "engine/methods/ngp/network.h"
#include "tests/testing/reference/dense_layer.h"

namespace nerf::reference {

// The weights of layer i of kNgpLayers [n_in, n_out_used].
Matrix NgpLayerWeights(const NgpNetwork& network, int i);

// Density (1 / training unit) and sRGB color of a point of the ngp field, in double precision.
struct FieldSample {
  double sigma;
  double color[3];
};
// unit: in the unit cube of network.box; direction of unit length.
FieldSample NgpFieldAt(const NgpNetwork& network, Vec3 unit, Vec3 direction);

}  // namespace nerf::reference
