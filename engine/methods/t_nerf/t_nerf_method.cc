#include "engine/methods/mlp_autograd/mlp_autograd_method.h"

namespace nerf {

const MethodDescription& DescribeTNerf();

const Method& TNerfMethod() {
  static const auto& method = *new MlpThroughTorch(DescribeTNerf(), "t_nerf_step", "dynamic");
  return method;
}

}  // namespace nerf
