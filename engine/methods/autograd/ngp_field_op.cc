#include "engine/methods/autograd/ngp_field_op.h"

#include "engine/methods/autograd/dense_layers_op.h"
#include "engine/methods/autograd/hash_encoding_op.h"
#include "engine/methods/autograd/spherical_harmonics_op.h"

namespace nerf::autograd {

torch::Tensor NgpGeometry(const kernels::HashGridShape& shape, const NgpTensors& parameters,
                          const torch::Tensor& positions) {
  return DenseLayers(HashEncode(shape, parameters.table, positions),
                     {parameters.layers[kDensityHidden], parameters.layers[kDensityOutput]});
}

torch::Tensor NgpColor(const NgpTensors& parameters, const torch::Tensor& geometry,
                       const torch::Tensor& directions) {
  const torch::Tensor inputs = torch::cat({SphericalHarmonics4(directions), geometry}, 1);
  const torch::Tensor last = parameters.layers[kColorOutput].slice(1, 0, kColorChannels);
  return torch::sigmoid(DenseLayers(
      inputs, {parameters.layers[kColorHidden0], parameters.layers[kColorHidden1], last}));
}

}  // namespace nerf::autograd
