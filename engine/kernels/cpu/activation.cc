#include "engine/kernels/activation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/activation.cc"
#include "hwy/foreach_target.h"
// foreach_target must come before highway.
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace nerf::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void DensityActivation(const DensityActivationParams& params) {
  const hn::ScalableTag<float> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  alignas(64) float gathered[HWY_MAX_BYTES / sizeof(float)];
  for (int begin = 0; begin < params.n; begin += lanes) {
    const int n = HWY_MIN(lanes, params.n - begin);
    for (int i = 0; i < lanes; ++i)
      gathered[i] = params.outputs[(begin + HWY_MIN(i, n - 1)) * params.stride];
    const auto exponent = hn::Min(hn::Sub(hn::Load(d, gathered), hn::Set(d, kDensityShift)),
                                  hn::Set(d, kDensityMaxExponent));
    const auto sigma = hn::Exp(d, hn::Max(exponent, hn::Set(d, -80.0f)));
    hn::Store(sigma, d, gathered);
    for (int i = 0; i < n; ++i) params.sigmas[begin + i] = gathered[i];
    if (params.alphas == nullptr) continue;
    for (int i = 0; i < n; ++i) gathered[i] = params.deltas[begin + i];
    const auto alpha = hn::Neg(
        hn::Expm1(d, hn::Max(hn::Neg(hn::Mul(sigma, hn::Load(d, gathered))), hn::Set(d, -80.0f))));
    hn::Store(alpha, d, gathered);
    for (int i = 0; i < n; ++i) params.alphas[begin + i] = gathered[i];
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
HWY_EXPORT(Sigmoid);
namespace cpu {
void DensityActivation(const DensityActivationParams& params) {
  HWY_DYNAMIC_DISPATCH(DensityActivation)(params);
}
void Sigmoid(const SigmoidParams& params) { HWY_DYNAMIC_DISPATCH(Sigmoid)(params); }
}  // namespace cpu
}  // namespace nerf::kernels
#endif  // HWY_ONCE
