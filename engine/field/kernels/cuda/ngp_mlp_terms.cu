#include "engine/base/check.h"
#include "engine/field/kernels/cuda/ngp_mlp.cuh"

namespace nerf::kernels::cuda {
namespace {

template <typename T>
void LaunchColor(const NgpColorParams<T>& params, Stream stream) {
  LaunchMlp("ngp_color_terms", NgpColorKernel<T, true>, params, kColorShared * sizeof(T), stream);
}

template <typename T>
void LaunchBackward(const NgpBackwardParams<T>& params, Stream stream) {
  NERF_CHECK(params.terms.of != nullptr && params.grad_terms != nullptr);
  const auto kernel = NgpBackwardKernel<T, true>;
  // Not for their number, but because more than 48 KB must be requested.
  ResidentBlocks(kernel, kMlpBlock, BackwardSharedBytes<T>());
  Launch("ngp_backward_terms", kernel, params.n_blocks, kMlpBlock, BackwardSharedBytes<T>(), stream,
         params);
}

}  // namespace

void NgpColorWithTerms(const NgpColorParams<float>& params, Stream stream) {
  LaunchColor(params, stream);
}
void NgpColorWithTerms(const NgpColorParams<Half>& params, Stream stream) {
  LaunchColor(params, stream);
}
void NgpBackwardWithTerms(const NgpBackwardParams<float>& params, Stream stream) {
  LaunchBackward(params, stream);
}
void NgpBackwardWithTerms(const NgpBackwardParams<Half>& params, Stream stream) {
  LaunchBackward(params, stream);
}

}  // namespace nerf::kernels::cuda
