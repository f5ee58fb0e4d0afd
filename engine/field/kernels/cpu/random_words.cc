#include "engine/field/kernels/random_words.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/field/kernels/cpu/random_words.cc"
#include "hwy/foreach_target.h"
// foreach_target must come before highway.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace nerf::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Philox4x32 (base/philox.h) of one counter a lane of 64 bits. Words lie in the lower halves; the
// upper halves hold what multiplications ignore.
void FillRandomWords(const cpu::RandomWordsParams& p) {
  int i = 0;
#if HWY_TARGET != HWY_SCALAR  // which has no halves of lanes
  const hn::ScalableTag<uint64_t> d;
  const hn::Repartition<uint32_t, decltype(d)> d32;
  const hn::Rebind<uint32_t, decltype(d)> half;
  const auto factor0 = hn::Set(d32, 0xD2511F53u), factor1 = hn::Set(d32, 0xCD9E8D57u);
  const int lanes = static_cast<int>(hn::Lanes(d));
  for (; i + lanes <= p.n; i += lanes) {
    auto c0 = hn::Iota(d, uint64_t{p.first} + static_cast<uint64_t>(i));
    auto c1 = hn::Set(d, uint64_t{p.step});
    auto c2 = hn::Set(d, static_cast<uint64_t>(p.use));
    auto c3 = hn::Zero(d);
    auto key0 = static_cast<uint32_t>(p.seed), key1 = static_cast<uint32_t>(p.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const auto product0 = hn::MulEven(hn::BitCast(d32, c0), factor0);
      const auto product1 = hn::MulEven(hn::BitCast(d32, c2), factor1);
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product1), c1), hn::Set(d, uint64_t{key0}));
      c1 = product1;
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product0), c3), hn::Set(d, uint64_t{key1}));
      c3 = product0;
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    hn::StoreU(hn::TruncateTo(half, c0), half, p.words[0] + i);
    hn::StoreU(hn::TruncateTo(half, c1), half, p.words[1] + i);
    hn::StoreU(hn::TruncateTo(half, c2), half, p.words[2] + i);
    hn::StoreU(hn::TruncateTo(half, c3), half, p.words[3] + i);
  }
#endif
  for (; i < p.n; ++i) {
    const auto words = RandomWords(p.seed, p.use, p.step, p.first + static_cast<uint32_t>(i));
    for (int w = 0; w < 4; ++w) p.words[w][i] = words[w];
  }
}

}  // namespace nerf::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nerf::kernels {
HWY_EXPORT(FillRandomWords);
namespace cpu {
void FillRandomWords(const RandomWordsParams& params) {
  HWY_DYNAMIC_DISPATCH(FillRandomWords)(params);
}
}  // namespace cpu
}  // namespace nerf::kernels
#endif  // HWY_ONCE
