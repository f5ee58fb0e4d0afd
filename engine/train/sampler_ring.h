#pragma once

#include <cstdint>
#include <vector>

#include "common/mutex.h"
#include "engine/base/background_thread.h"
#include "engine/base/parallel_for.h"
#include "engine/train/ray_sampler.h"

namespace nerf {

// Draws the batches of the coming steps on a thread of its own while the step at hand runs: where a
// device computes the steps, its input is ready when it asks. Rays are a pure function of (seed,
// step, index), so a batch can be drawn before it is known how many of its rays the step wants:
// the ring draws as many as the last step took and some more, Take cuts the rest off or draws what
// is missing. What Take gives is bit for bit what RaySampler::Fill gives. Take is called from one
// thread.
class SamplerRing {
 public:
  // The sampler outlives the ring. Holds up to n_ahead batches, at least 1; starts drawing at
  // first_step with n_rays.
  SamplerRing(const RaySampler* sampler, int n_ahead, uint32_t first_step, int n_rays);
  ~SamplerRing();
  SamplerRing(const SamplerRing&) = delete;
  SamplerRing& operator=(const SamplerRing&) = delete;

  // Fills *batch as sampler->Fill(step, n_rays) does; waits where that batch is not drawn yet. Its
  // buffers go into the ring. Steps come one after another; any other step makes the ring start
  // anew from it.
  void Take(uint32_t step, int n_rays, ThreadPool* pool, Batch* batch);

  // Batches that are drawn and not taken.
  int n_ready() const;

 private:
  void Draw();

  const RaySampler* const sampler_;
  mutable Mutex mu_;
  CondVar changed_;
  // slots_[(first_slot_ + i) % size] is for step next_step_ + i, and filled where i < n_ready_. The
  // one at n_ready_ belongs to the drawing thread, which touches it without the lock.
  std::vector<Batch> slots_;
  size_t first_slot_ ABSL_GUARDED_BY(mu_) = 0;
  size_t n_ready_ ABSL_GUARDED_BY(mu_) = 0;
  uint32_t next_step_ ABSL_GUARDED_BY(mu_);
  int n_rays_ ABSL_GUARDED_BY(mu_);               // taken last
  uint64_t generation_ ABSL_GUARDED_BY(mu_) = 0;  // grows when the ring starts anew
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  BackgroundThread thread_;  // last: everything else is there when it starts
};

}  // namespace nerf
