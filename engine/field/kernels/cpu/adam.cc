#include "engine/field/kernels/adam.h"

#include <cstddef>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/field/kernels/cpu/adam.cc"
#include "hwy/foreach_target.h"
// foreach_target must come before highway.
#include "hwy/cache_control.h"
#include "hwy/highway.h"
// After highway.h: it is included once per target.
#include "engine/field/kernels/cpu/half_vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nerf::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kLine = 16;           // floats per cache line
constexpr int kFlagLines = 1024;    // lines whose flags are scanned before their updates
constexpr int kPrefetchLines = 24;  // prefetch distance; 12 gained half as much

template <class D>
struct AdamStep {
  using V = hn::Vec<D>;
  D d;
  V beta1, beta2, rest1, rest2, rate, correction2, epsilon, l2;

  explicit AdamStep(const AdamSettings& s)
      : beta1(hn::Set(d, s.beta1)),
        beta2(hn::Set(d, s.beta2)),
        rest1(hn::Set(d, 1 - s.beta1)),
        rest2(hn::Set(d, 1 - s.beta2)),
        rate(hn::Set(d, s.learning_rate * s.correction1)),
        correction2(hn::Set(d, s.correction2)),
        epsilon(hn::Set(d, s.epsilon)),
        l2(hn::Set(d, s.l2)) {}

  HWY_INLINE void Update(V gradient, V* parameter, V* first, V* second) const {
    *first = hn::MulAdd(beta1, *first, hn::Mul(rest1, gradient));
    *second = hn::MulAdd(beta2, *second, hn::Mul(rest2, hn::Mul(gradient, gradient)));
    const V root = hn::Add(hn::Sqrt(hn::Mul(*second, correction2)), epsilon);
    *parameter = hn::Sub(*parameter, hn::Div(hn::Mul(rate, *first), root));
  }
};

void AdamDense(const AdamDenseParams& params) {
  const hn::ScalableTag<float> d;
  const AdamStep<decltype(d)> step(params.settings);
  const int64_t lanes = hn::Lanes(d);
  const auto update = [&](float* p, float* m, float* v, const float* g) HWY_ATTR {
    auto parameter = hn::LoadU(d, p), first = hn::LoadU(d, m), second = hn::LoadU(d, v);
    step.Update(hn::MulAdd(step.l2, parameter, hn::LoadU(d, g)), &parameter, &first, &second);
    hn::StoreU(parameter, d, p);
    hn::StoreU(first, d, m);
    hn::StoreU(second, d, v);
  };
  int64_t i = 0;
  for (; i + lanes <= params.n; i += lanes) {
    update(params.parameters + i, params.first_moments + i, params.second_moments + i,
           params.gradients + i);
  }
  if (i == params.n) return;
  constexpr int kMaxLanes = HWY_MAX_BYTES / sizeof(float);
  float tail[4][kMaxLanes] = {};
  const size_t bytes = (params.n - i) * sizeof(float);
  std::memcpy(tail[0], params.parameters + i, bytes);
  std::memcpy(tail[1], params.first_moments + i, bytes);
  std::memcpy(tail[2], params.second_moments + i, bytes);
  std::memcpy(tail[3], params.gradients + i, bytes);
  update(tail[0], tail[1], tail[2], tail[3]);
  std::memcpy(params.parameters + i, tail[0], bytes);
  std::memcpy(params.first_moments + i, tail[1], bytes);
  std::memcpy(params.second_moments + i, tail[2], bytes);
}

using LineTag = hn::CappedTag<float, kLine>;
using LineFloats = hn::Vec<LineTag>;
using LineMask = hn::Mask<LineTag>;

// How AdamSparse loads and stores the moments from element i on. Store writes those in `mask`.
struct FloatMoments {
  float* first;
  float* second;

  HWY_INLINE void Load(int64_t i, LineFloats* m, LineFloats* v) const {
    *m = hn::Load(LineTag(), first + i);
    *v = hn::Load(LineTag(), second + i);
  }
  HWY_INLINE void Store(LineMask mask, LineFloats m, LineFloats v, int64_t i) const {
    const LineTag d;
    hn::Store(hn::IfThenElse(mask, m, hn::Load(d, first + i)), d, first + i);
    hn::Store(hn::IfThenElse(mask, v, hn::Load(d, second + i)), d, second + i);
  }
  HWY_INLINE void Prefetch(int64_t i) const {
    hwy::Prefetch(first + i);
    hwy::Prefetch(second + i);
  }
};
struct Bf16Moments {
  uint32_t* words;

  HWY_INLINE void Load(int64_t i, LineFloats* m, LineFloats* v) const {
    const LineTag d;
    const hn::RebindToUnsigned<LineTag> du;
    const auto pairs = hn::Load(du, words + i);
    *m = hn::BitCast(d, hn::ShiftLeft<16>(pairs));
    *v = hn::BitCast(d, hn::And(pairs, hn::Set(du, 0xffff0000u)));
  }
  HWY_INLINE void Store(LineMask mask, LineFloats m, LineFloats v, int64_t i) const {
    const hn::RebindToUnsigned<LineTag> du;
    const auto rounded = [&](LineFloats value) HWY_ATTR {
      const auto bits = hn::BitCast(du, value);
      const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
      return hn::Add(hn::Add(bits, hn::Set(du, 0x7fffu)), odd);
    };
    const auto pairs =
        hn::Or(hn::ShiftRight<16>(rounded(m)), hn::And(rounded(v), hn::Set(du, 0xffff0000u)));
    const auto is_new = hn::RebindMask(du, mask);
    hn::Store(hn::IfThenElse(is_new, pairs, hn::Load(du, words + i)), du, words + i);
  }
  HWY_INLINE void Prefetch(int64_t i) const { hwy::Prefetch(words + i); }
};

template <class Moments>
void UpdateTouched(const AdamSparseParams& params, const Moments moments) {
  const LineTag d;
  const AdamStep<LineTag> step(params.settings);
  const int64_t lanes = hn::Lanes(d);
  const auto zero = hn::Zero(d);
  const auto update = [&](int64_t line) HWY_ATTR {
    for (int64_t i = line * kLine; i < (line + 1) * kLine; i += lanes) {
      const auto gradient = hn::Load(d, params.gradients + i);
      const auto has_gradient = hn::Ne(gradient, zero);
      const auto old_parameter = hn::Load(d, params.parameters + i);
      auto parameter = old_parameter, first = zero, second = zero;
      moments.Load(i, &first, &second);
      step.Update(gradient, &parameter, &first, &second);
      parameter = hn::IfThenElse(has_gradient, parameter, old_parameter);
      hn::Store(parameter, d, params.parameters + i);
      if (params.half_copies != nullptr) StoreHalves(d, parameter, params.half_copies + i);
      moments.Store(has_gradient, first, second, i);
      hn::Store(zero, d, params.gradients + i);
    }
  };
  int32_t found[kFlagLines + kPrefetchLines];  // touched lines, relative to begin
  for (int64_t begin = 0; begin < params.n_lines; begin += kFlagLines) {
    const int64_t end = HWY_MIN(begin + kFlagLines, params.n_lines);
    int n = 0;
    for (int64_t group = begin; group < end; group += 8) {
      uint64_t flags;
      std::memcpy(&flags, params.touched + group, 8);
      if (flags == 0) continue;
      for (int64_t line = group; line < group + 8; ++line) {
        found[n] = static_cast<int32_t>(line - begin);
        n += params.touched[line] != 0;
      }
      std::memset(params.touched + group, 0, 8);
    }
    for (int i = n; i < n + kPrefetchLines; ++i) found[i] = n > 0 ? found[n - 1] : 0;
    for (int i = 0; i < n; ++i) {
      const int64_t ahead = (begin + found[i + kPrefetchLines]) * kLine;
      hwy::Prefetch(params.gradients + ahead);
      hwy::Prefetch(params.parameters + ahead);
      moments.Prefetch(ahead);
      update(begin + found[i]);
    }
  }
}

void AdamSparse(const AdamSparseParams& params) {
  if (params.moment_pairs != nullptr) {
    UpdateTouched(params, Bf16Moments{params.moment_pairs});
  } else {
    UpdateTouched(params, FloatMoments{params.first_moments, params.second_moments});
  }
}

void AdamRow(const AdamRowParams& params) {
  const LineTag d;
  AdamStep<LineTag> step(params.settings);
  const int lanes = static_cast<int>(hn::Lanes(d));
  for (int i = 0; i < params.n; i += lanes) {
    auto parameter = hn::LoadU(d, params.parameters + i);
    auto first = hn::LoadU(d, params.first_moments + i);
    auto second = hn::LoadU(d, params.second_moments + i);
    step.rate = hn::LoadU(d, params.rates + i);
    step.Update(hn::LoadU(d, params.gradients + i), &parameter, &first, &second);
    hn::StoreU(parameter, d, params.parameters + i);
    hn::StoreU(first, d, params.first_moments + i);
    hn::StoreU(second, d, params.second_moments + i);
  }
}

void MovingAverage(const MovingAverageParams& params) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = hn::Lanes(d);
  const auto keep = hn::Set(d, params.decay), take = hn::Set(d, 1 - params.decay);
  int64_t i = 0;
  for (; i + lanes <= params.n; i += lanes) {
    const auto average = hn::LoadU(d, params.averages + i);
    hn::StoreU(hn::MulAdd(keep, average, hn::Mul(take, hn::LoadU(d, params.parameters + i))), d,
               params.averages + i);
  }
  for (; i < params.n; ++i) {
    params.averages[i] =
        params.decay * params.averages[i] + (1 - params.decay) * params.parameters[i];
  }
}

}  // namespace nerf::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nerf::kernels {
HWY_EXPORT(AdamDense);
HWY_EXPORT(AdamSparse);
HWY_EXPORT(AdamRow);
HWY_EXPORT(MovingAverage);
namespace cpu {
void AdamDense(const AdamDenseParams& params) { HWY_DYNAMIC_DISPATCH(AdamDense)(params); }
void AdamSparse(const AdamSparseParams& params) { HWY_DYNAMIC_DISPATCH(AdamSparse)(params); }
void AdamRow(const AdamRowParams& params) { HWY_DYNAMIC_DISPATCH(AdamRow)(params); }
void MovingAverage(const MovingAverageParams& params) {
  HWY_DYNAMIC_DISPATCH(MovingAverage)(params);
}
}  // namespace cpu
}  // namespace nerf::kernels
#endif  // HWY_ONCE
