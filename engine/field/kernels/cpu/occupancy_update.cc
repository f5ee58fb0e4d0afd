#include "engine/field/kernels/occupancy_update.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/field/kernels/cpu/occupancy_update.cc"
#include "hwy/foreach_target.h"
// foreach_target must come before highway.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace nerf::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

double SumOfCells(int64_t n_blocks, const float* values) {
  // The same number of partial sums on every target, so that all add in the same order.
  constexpr int kSums = 8;
  const hn::CappedTag<double, kSums> d;
  const hn::Rebind<float, decltype(d)> df;
  const int lanes = static_cast<int>(hn::Lanes(d));
  alignas(64) double sums[kSums];
  for (int first = 0; first < kSums; first += lanes) {
    auto sum = hn::Zero(d);
    for (int64_t cell = first; cell < kBlockCells * n_blocks; cell += kSums)
      sum = hn::Add(sum, hn::PromoteTo(d, hn::LoadU(df, values + cell)));
    hn::Store(sum, d, sums + first);
  }
  double total = 0;
  for (double sum : sums) total += sum;
  return total;
}

void SetOccupiedBits(const cpu::SetOccupiedBitsParams& params) {
  const hn::CappedTag<float, 16> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  const auto threshold = hn::Set(d, params.threshold);
  for (int64_t block = 0; block < params.n_blocks; ++block) {
    const float* const values = params.values + kBlockCells * block;
    uint64_t occupied = 0;
    for (int i = 0; i < kBlockCells; i += lanes) {
      uint8_t bytes[8] = {};
      hn::StoreMaskBits(d, hn::Gt(hn::LoadU(d, values + i), threshold), bytes);
      uint64_t bits;
      std::memcpy(&bits, bytes, sizeof(bits));
      occupied |= bits << i;
    }
    params.blocks[block] = occupied & params.allowed[block];
  }
}

}  // namespace nerf::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nerf::kernels {
HWY_EXPORT(SumOfCells);
HWY_EXPORT(SetOccupiedBits);
namespace cpu {
double SumOfCells(int64_t n_blocks, const float* values) {
  return HWY_DYNAMIC_DISPATCH(SumOfCells)(n_blocks, values);
}
void SetOccupiedBits(const SetOccupiedBitsParams& params) {
  HWY_DYNAMIC_DISPATCH(SetOccupiedBits)(params);
}
}  // namespace cpu
}  // namespace nerf::kernels
#endif  // HWY_ONCE
