// Included once per target of hwy/foreach_target.h, hence no ordinary include guard.
#if defined(NERF_KERNELS_CPU_HALF_VECTOR_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef NERF_KERNELS_CPU_HALF_VECTOR_INL_H
#undef NERF_KERNELS_CPU_HALF_VECTOR_INL_H
#else
#define NERF_KERNELS_CPU_HALF_VECTOR_INL_H
#endif

#include "engine/base/half_float.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace nerf::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Whether the target converts halves in hardware. Without that, Highway truncates instead of
// rounding.
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128 || \
    (HWY_ARCH_X86 && (HWY_TARGET > HWY_AVX2 || defined(HWY_DISABLE_F16C)))
constexpr bool kConvertsHalves = false;
#else
constexpr bool kConvertsHalves = true;
#endif

template <class D>
HWY_INLINE hn::Vec<D> LoadFloats(D d, const float* from) {
  return hn::LoadU(d, from);
}

// Half to float is exact.
template <class D>
HWY_INLINE hn::Vec<D> LoadFloats(D d, const Half* from) {
  if constexpr (kConvertsHalves) {
    const hn::Rebind<hwy::float16_t, D> dh;
    return hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(from)));
  } else {
    HWY_ALIGN float values[HWY_MAX_BYTES / sizeof(float)];
    for (size_t i = 0; i < hn::Lanes(d); ++i) values[i] = FloatFromHalf(from[i]);
    return hn::Load(d, values);
  }
}

// Rounds to the nearest halves, ties to even.
template <class D>
HWY_INLINE void StoreHalves(D d, hn::Vec<D> values, Half* to) {
  if constexpr (kConvertsHalves) {
    const hn::Rebind<hwy::float16_t, D> dh;
    hn::StoreU(hn::DemoteTo(dh, values), dh, reinterpret_cast<hwy::float16_t*>(to));
  } else {
    HWY_ALIGN float floats[HWY_MAX_BYTES / sizeof(float)];
    hn::Store(values, d, floats);
    for (size_t i = 0; i < hn::Lanes(d); ++i) to[i] = HalfFromFloat(floats[i]);
  }
}

}  // namespace nerf::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
