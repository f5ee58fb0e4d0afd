#include "engine/methods/ngp/layer_backward.h"

#include "engine/field/kernels/dense_layer.h"

namespace nerf {

void LayerBackward(const LayerBackwardParams& params) {
  kernels::cpu::DenseBackwardWeights({.n_rows = params.n_rows,
                                      .n_in = params.n_in,
                                      .n_out = params.n_out,
                                      .inputs = params.inputs,
                                      .input_stride = params.n_in,
                                      .grad_outputs = params.grad_outputs,
                                      .grad_output_stride = params.n_out,
                                      .grad_weights = params.grad_weights});
  kernels::cpu::DenseBackwardInput({.n_rows = params.n_rows,
                                    .n_in = params.n_in,
                                    .n_out = params.n_out,
                                    .grad_outputs = params.grad_outputs,
                                    .grad_output_stride = params.n_out,
                                    .weights = params.transposed_weights,
                                    .weight_pairs = params.transposed_pairs,
                                    .gate = params.inputs_are_relu ? params.inputs : nullptr,
                                    .gate_stride = params.n_in,
                                    .grad_inputs = params.inputs,
                                    .grad_input_stride = params.n_in});
}

}  // namespace nerf
