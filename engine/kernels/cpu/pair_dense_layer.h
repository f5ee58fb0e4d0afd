#pragma once

#include "engine/kernels/cpu/pair_product.h"
#include "engine/kernels/dense_layer.h"

namespace nerf::kernels::cpu {

// The dense layers of kernels/dense_layer.h with operands rounded to bf16 (to nearest, ties to
// even) and multiplied by `unit`; what goes in and comes out stays fp32.

// Whether the layer is narrow enough for the buffers: at most kMaxPairRows values on either side.
bool FitsPairs(int n_in, int n_out);

void PairDenseForward(const PairUnit& unit, const DenseForwardParams& params);
void PairDenseBackwardInput(const PairUnit& unit, const DenseBackwardInputParams& params);
void PairDenseBackwardWeights(const PairUnit& unit, const DenseBackwardWeightsParams& params);

}  // namespace nerf::kernels::cpu
