#include "engine/field/kernels/activation.h"

#include <cstddef>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/field/kernels/cpu/activation.cc"
#include "hwy/foreach_target.h"
// foreach_target must come before highway.
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace nerf::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, class V = hn::Vec<D>>
HWY_INLINE V AlphasOf(D d, V sigma, V delta) {
  return hn::Neg(hn::Expm1(d, hn::Max(hn::Neg(hn::Mul(sigma, delta)), hn::Set(d, -80.0f))));
}

void DensityActivation(const DensityActivationParams& params) {
  const hn::ScalableTag<float> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  alignas(64) float gathered[HWY_MAX_BYTES / sizeof(float)];
  for (int begin = 0; begin < params.n; begin += lanes) {
    const int n = HWY_MIN(lanes, params.n - begin);
    for (int i = 0; i < lanes; ++i)
      gathered[i] = params.outputs[(begin + HWY_MIN(i, n - 1)) * params.stride];
    const auto exponent = hn::Min(hn::Sub(hn::Load(d, gathered), hn::Set(d, params.shift)),
                                  hn::Set(d, kDensityMaxExponent));
    const auto sigma = hn::Exp(d, hn::Max(exponent, hn::Set(d, -80.0f)));
    hn::Store(sigma, d, gathered);
    for (int i = 0; i < n; ++i) params.sigmas[begin + i] = gathered[i];
    if (params.alphas == nullptr) continue;
    for (int i = 0; i < n; ++i) gathered[i] = params.deltas[begin + i];
    hn::Store(AlphasOf(d, sigma, hn::Load(d, gathered)), d, gathered);
    for (int i = 0; i < n; ++i) params.alphas[begin + i] = gathered[i];
  }
}

void Alphas(const AlphasParams& params) {
  const hn::ScalableTag<float> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  int i = 0;
  for (; i + lanes <= params.n; i += lanes) {
    hn::StoreU(AlphasOf(d, hn::LoadU(d, params.sigmas + i), hn::LoadU(d, params.deltas + i)), d,
               params.alphas + i);
  }
  if (i < params.n) {
    const size_t bytes = static_cast<size_t>(params.n - i) * sizeof(float);
    alignas(64) float sigmas[HWY_MAX_BYTES / sizeof(float)] = {};
    alignas(64) float deltas[HWY_MAX_BYTES / sizeof(float)] = {};
    std::memcpy(sigmas, params.sigmas + i, bytes);
    std::memcpy(deltas, params.deltas + i, bytes);
    hn::Store(AlphasOf(d, hn::Load(d, sigmas), hn::Load(d, deltas)), d, sigmas);
    std::memcpy(params.alphas + i, sigmas, bytes);
  }
}

void Sigmoid(const SigmoidParams& params) {
  const hn::ScalableTag<float> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  const auto one = hn::Set(d, 1.0f), limit = hn::Set(d, 80.0f);  // exp(80) is finite
  const auto sigmoid = [&](auto x) HWY_ATTR {
    const auto exponent = hn::Max(hn::Min(hn::Neg(x), limit), hn::Neg(limit));
    return hn::Div(one, hn::Add(one, hn::Exp(d, exponent)));
  };
  int i = 0;
  for (; i + lanes <= params.n; i += lanes) {
    hn::StoreU(sigmoid(hn::LoadU(d, params.values + i)), d, params.values + i);
  }
  if (i < params.n) {
    alignas(64) float tail[HWY_MAX_BYTES / sizeof(float)] = {};
    for (int j = i; j < params.n; ++j) tail[j - i] = params.values[j];
    hn::Store(sigmoid(hn::Load(d, tail)), d, tail);
    for (int j = i; j < params.n; ++j) params.values[j] = tail[j - i];
  }
}

}  // namespace nerf::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nerf::kernels {
HWY_EXPORT(DensityActivation);
HWY_EXPORT(Alphas);
HWY_EXPORT(Sigmoid);
namespace cpu {
void DensityActivation(const DensityActivationParams& params) {
  HWY_DYNAMIC_DISPATCH(DensityActivation)(params);
}
void Alphas(const AlphasParams& params) { HWY_DYNAMIC_DISPATCH(Alphas)(params); }
void Sigmoid(const SigmoidParams& params) { HWY_DYNAMIC_DISPATCH(Sigmoid)(params); }
}  // namespace cpu
}  // namespace nerf::kernels
#endif  // HWY_ONCE
