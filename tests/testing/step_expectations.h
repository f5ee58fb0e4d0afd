#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"
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

// Expects that NaN in any tensor of the field shows in the loss of the next step, and that a good
// state heals it.
inline void ExpectNansToShow(RayStep* step, const RayBatch& batch) {
  const TensorFile state = LivelyState(*step);
  for (const std::string& name : FieldTensorNames()) {
    ASSERT_THAT(step->Load(WithNan(state, name)), IsOk());
    EXPECT_TRUE(std::isnan(step->RunRays(batch).loss)) << name;
  }
  ASSERT_THAT(step->Load(state), IsOk());
  EXPECT_TRUE(std::isfinite(step->RunRays(batch).loss));
}

}  // namespace nerf
