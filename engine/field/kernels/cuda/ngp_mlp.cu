#include "engine/field/kernels/cuda/ngp_mlp.cuh"

namespace nerf::kernels::cuda {
namespace {

template <typename T>
int BackwardBlocks() {
  return ResidentBlocks(NgpBackwardKernel<T, false>, kMlpBlock, BackwardSharedBytes<T>());
}

// Not limited to the blocks that have samples: every block writes its row of sums.
template <typename T>
void LaunchBackward(const NgpBackwardParams<T>& params, Stream stream) {
  if (params.terms.terms != nullptr) {
    NgpBackwardWithTerms(params, stream);
    return;
  }
  Launch("ngp_backward", NgpBackwardKernel<T, false>, params.n_blocks, kMlpBlock,
         BackwardSharedBytes<T>(), stream, params);
}

template <typename T>
void LaunchColor(const NgpColorParams<T>& params, Stream stream) {
  if (params.terms.terms != nullptr) {
    NgpColorWithTerms(params, stream);
    return;
  }
  LaunchMlp("ngp_color", NgpColorKernel<T, false>, params, kColorShared * sizeof(T), stream);
}

constexpr int kDensityShared = kLayer2;

}  // namespace

void NgpDensity(const NgpDensityParams<float>& params, Stream stream) {
  LaunchMlp("ngp_density", NgpDensityKernel<float>, params, kDensityShared * sizeof(float), stream);
}
void NgpDensity(const NgpDensityParams<Half>& params, Stream stream) {
  LaunchMlp("ngp_density", NgpDensityKernel<Half>, params, kDensityShared * sizeof(Half), stream);
}
void NgpColor(const NgpColorParams<float>& params, Stream stream) { LaunchColor(params, stream); }
void NgpColor(const NgpColorParams<Half>& params, Stream stream) { LaunchColor(params, stream); }
void NgpBackward(const NgpBackwardParams<float>& params, Stream stream) {
  LaunchBackward(params, stream);
}
void NgpBackward(const NgpBackwardParams<Half>& params, Stream stream) {
  LaunchBackward(params, stream);
}

template <>
size_t NgpBackwardSharedBytes<float>() {
  return BackwardSharedBytes<float>();
}
template <>
size_t NgpBackwardSharedBytes<Half>() {
  return BackwardSharedBytes<Half>();
}
template <>
int NgpBackwardBlocks<float>() {
  return BackwardBlocks<float>();
}
template <>
int NgpBackwardBlocks<Half>() {
  return BackwardBlocks<Half>();
}

}  // namespace nerf::kernels::cuda
