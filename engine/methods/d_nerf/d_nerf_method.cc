#include "engine/methods/mlp_autograd/mlp_autograd_method.h"

namespace nerf {

const MethodDescription& DescribeDNerf();

const Method& DNerfMethod() {
  static const auto& method = *new MlpThroughTorch(DescribeDNerf(), "d_nerf_step", "dynamic");
  return method;
}

}  // namespace nerf
