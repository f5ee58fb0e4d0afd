#pragma once

#include <cstdint>
#include <vector>

#include "common/mutex.h"
#include "engine/base/background_thread.h"
#include "engine/base/parallel_for.h"
#include "engine/train/batch/pixel_sampler.h"

namespace nerf {

// Draws the next steps' batches on a thread of its own while a step runs, so that a device's input
// is ready in time. Pixels are a pure function of (seed, step, index), so a batch can be drawn
// before its number of pixels is known: the ring draws a few more than the last step took, and Take
// cuts the rest off or draws the missing ones. A rank draws its own range of each batch. Take gives
// bit for bit what PixelSampler::FillRange does, and is called from one thread.
class SamplerRing {
 public:
  // The sampler outlives the ring. Holds up to n_ahead batches, at least 1; starts drawing at
  // first_step with this range of n_pixels, and goes on with each stride-th step.
  SamplerRing(const PixelSampler* sampler, int n_ahead, uint32_t first_step, int n_pixels,
              IndexRange range, uint32_t stride = 1);
  ~SamplerRing();
  SamplerRing(const SamplerRing&) = delete;
  SamplerRing& operator=(const SamplerRing&) = delete;

  // Fills *batch as sampler->FillRange(step, n_pixels, range) does; waits if that batch is not
  // drawn yet. Its old buffers go into the ring. Steps are expected in order; any other step
  // restarts the ring from it.
  void Take(uint32_t step, int n_pixels, IndexRange range, ThreadPool* pool, PixelBatch* batch);

  // Batches drawn and not taken yet.
  int n_ready() const;

 private:
  struct Slot {
    PixelBatch batch;
    IndexRange filled;
  };

  void Draw();

  const PixelSampler* const sampler_;
  const uint32_t stride_;
  mutable Mutex mu_;
  CondVar changed_;
  // slots_[(first_slot_ + i) % size] is for step next_step_ + i * stride_, and filled where i <
  // n_ready_. The one at n_ready_ belongs to the drawing thread, which touches it without the lock.
  std::vector<Slot> slots_;
  size_t first_slot_ ABSL_GUARDED_BY(mu_) = 0;
  size_t n_ready_ ABSL_GUARDED_BY(mu_) = 0;
  uint32_t next_step_ ABSL_GUARDED_BY(mu_);
  int n_pixels_ ABSL_GUARDED_BY(mu_);             // of the last Take
  IndexRange range_ ABSL_GUARDED_BY(mu_);         // of the last Take
  uint64_t generation_ ABSL_GUARDED_BY(mu_) = 0;  // grows when the ring restarts
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  BackgroundThread thread_;  // last, since it uses the members above
};

}  // namespace nerf
