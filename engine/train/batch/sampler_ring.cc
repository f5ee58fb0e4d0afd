#include "engine/train/batch/sampler_ring.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"

namespace nerf {
namespace {

// Rays drawn around those that the last step took, as a share of its batch: the ray count, and with
// it a rank's range, drifts by a few percent from step to step.
constexpr int kSparePixels = 16;  // one in sixteen

}  // namespace

SamplerRing::SamplerRing(const PixelSampler* sampler, int n_ahead, uint32_t first_step,
                         int n_pixels, IndexRange range, uint32_t stride)
    : sampler_(sampler),
      stride_(stride),
      slots_(static_cast<size_t>(n_ahead)),
      next_step_(first_step),
      n_pixels_(n_pixels),
      range_(range),
      thread_("sampler_ring", [this] { Draw(); }) {
  NERF_CHECK(n_ahead >= 1);
}

SamplerRing::~SamplerRing() {
  MutexLock lock(mu_);
  stopping_ = true;
  changed_.NotifyAll();
}

int SamplerRing::n_ready() const {
  MutexLock lock(mu_);
  return static_cast<int>(n_ready_);
}

void SamplerRing::Take(uint32_t step, int n_pixels, IndexRange range, ThreadPool* pool,
                       PixelBatch* batch) {
  IndexRange filled;
  {
    MutexLock lock(mu_);
    n_pixels_ = n_pixels;
    range_ = range;
    if (step != next_step_) {
      next_step_ = step;
      n_ready_ = 0;
      ++generation_;
      changed_.NotifyAll();
    }
    while (n_ready_ == 0) changed_.Wait(mu_);
    std::swap(slots_[first_slot_].batch, *batch);
    filled = slots_[first_slot_].filled;
    first_slot_ = (first_slot_ + 1) % slots_.size();
    --n_ready_;
    next_step_ += stride_;
    changed_.NotifyAll();
  }
  sampler_->Resize(n_pixels, filled, range, pool, batch);
}

void SamplerRing::Draw() {
  MutexLock lock(mu_);
  while (true) {
    while (!stopping_ && n_ready_ == slots_.size()) changed_.Wait(mu_);
    if (stopping_) return;
    const uint64_t generation = generation_;
    const uint32_t step = next_step_ + static_cast<uint32_t>(n_ready_) * stride_;
    const int spare = n_pixels_ / kSparePixels;
    const int n_pixels = n_pixels_ + spare;
    const IndexRange range{std::max(0, range_.begin - spare),
                           std::min(n_pixels, range_.end + spare)};
    Slot& slot = slots_[(first_slot_ + n_ready_) % slots_.size()];
    mu_.Unlock();
    slot.filled = range;
    sampler_->FillRange(step, n_pixels, range, nullptr, &slot.batch);
    mu_.Lock();
    if (generation != generation_) continue;
    ++n_ready_;
    changed_.NotifyAll();
  }
}

}  // namespace nerf
