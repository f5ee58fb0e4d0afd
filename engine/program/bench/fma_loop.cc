#include "engine/program/bench/ceilings.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/program/bench/fma_loop.cc"
#include "hwy/foreach_target.h"
// foreach_target must come before highway.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace nerf::ceilings::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Twelve independent chains keep two units of four to five cycles' latency busy and fit AVX2's
// sixteen registers; one variable each, so that they stay in registers. They start from different
// values, because a compiler could merge equal chains.
double FmaLoop(int64_t n_rounds, float* sink) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, 0.999f), term = hn::Set(d, 0.001f);
  const auto start = [&](float value) HWY_ATTR { return hn::Set(d, *sink + value); };
  auto a = start(1);
  auto b = start(2);
  auto c = start(3);
  auto e = start(4);
  auto f = start(5);
  auto g = start(6);
  auto h = start(7);
  auto i = start(8);
  auto j = start(9);
  auto k = start(10);
  auto l = start(11);
  auto m = start(12);
  for (int64_t round = 0; round < n_rounds; ++round) {
    a = hn::MulAdd(a, factor, term);
    b = hn::MulAdd(b, factor, term);
    c = hn::MulAdd(c, factor, term);
    e = hn::MulAdd(e, factor, term);
    f = hn::MulAdd(f, factor, term);
    g = hn::MulAdd(g, factor, term);
    h = hn::MulAdd(h, factor, term);
    i = hn::MulAdd(i, factor, term);
    j = hn::MulAdd(j, factor, term);
    k = hn::MulAdd(k, factor, term);
    l = hn::MulAdd(l, factor, term);
    m = hn::MulAdd(m, factor, term);
  }
  auto sum = hn::Add(a, b);
  sum = hn::Add(sum, c);
  sum = hn::Add(sum, e);
  sum = hn::Add(sum, f);
  sum = hn::Add(sum, g);
  sum = hn::Add(sum, h);
  sum = hn::Add(sum, i);
  sum = hn::Add(sum, j);
  sum = hn::Add(sum, k);
  sum = hn::Add(sum, l);
  sum = hn::Add(sum, m);
  *sink = hn::GetLane(sum) * 1e-3f;
  return 2.0 * 12 * static_cast<double>(n_rounds) * static_cast<double>(hn::Lanes(d));
}

}  // namespace nerf::ceilings::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nerf::ceilings {

HWY_EXPORT(FmaLoop);

double FmaLoop(int64_t n_rounds, float* sink) {
  return HWY_DYNAMIC_DISPATCH(FmaLoop)(n_rounds, sink);
}

}  // namespace nerf::ceilings
#endif  // HWY_ONCE
