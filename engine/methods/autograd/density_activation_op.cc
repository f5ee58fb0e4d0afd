#include "engine/methods/autograd/density_activation_op.h"

#include <torch/csrc/autograd/custom_function.h>

#include "engine/field/kernels/activation.h"

namespace nerf::autograd {
namespace {

struct DensityFunction : public torch::autograd::Function<DensityFunction> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& outputs, double shift) {
    const torch::Tensor sigmas =
        torch::exp((outputs - shift).clamp_max(kernels::kDensityMaxExponent));
    context->save_for_backward({sigmas});
    return sigmas;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0] * context->get_saved_variables()[0], {}};
  }
};

}  // namespace

torch::Tensor DensityActivation(const torch::Tensor& outputs, float shift) {
  return DensityFunction::apply(outputs, double{shift});
}

}  // namespace nerf::autograd
