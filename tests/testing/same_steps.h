#pragma once

#include <cstdint>
#include <functional>

#include "gtest/gtest.h"
#include "tests/testing/tiny_training.h"

namespace nerf {

// Runs both steps on the batches of steps [first, end) and expects equal results and states.
inline void ExpectSameSteps(RayStep* a, RayStep* b, uint32_t first, uint32_t end,
                            const std::function<RayBatch(uint32_t step)>& batch_of) {
  for (uint32_t i = first; i < end; ++i) {
    const RayBatch batch = batch_of(i);
    const StepResult of_a = a->RunRays(batch), of_b = b->RunRays(batch);
    EXPECT_EQ(of_a.loss, of_b.loss);
    EXPECT_EQ(of_a.n_trained, of_b.n_trained);
  }
  EXPECT_TRUE(SameContents(Saved(*a), Saved(*b)));
}

}  // namespace nerf
