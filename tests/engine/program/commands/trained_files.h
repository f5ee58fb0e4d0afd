#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/program/session/loaded_model.h"
#include "engine/program/session/training_session.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"

namespace nerf {

// Trains to the end, or to step `stop_after`, and writes a checkpoint and a model.
inline void TrainFiles(const TrainRequest& request, ThreadPool* pool, const std::string& checkpoint,
                       const std::string& model, std::optional<uint32_t> stop_after = {}) {
  Problems problems;
  auto session = OpenTrainingSession(request, pool, &problems, {});
  ASSERT_THAT(session, IsOk());
  TrainerObserver observer;
  TrainerOptions options;
  options.stop_after = stop_after;
  FakeClock clock;
  Trainer trainer(&(*session)->scene, (*session)->state, (*session)->step.get(), pool, &clock,
                  options, &observer);
  ASSERT_THAT(trainer.Run({}), IsOk());
  ASSERT_THAT(WriteTrainingFiles(trainer, checkpoint, model), IsOk());
}

// The view of the file's reference camera.
inline ViewPicture RenderFile(const std::string& path, RenderDevice* device) {
  const auto model = LoadModelFile(path, device);
  EXPECT_THAT(model, IsOk());
  ViewPicture picture;
  EXPECT_TRUE(
      model->renderer->Render(model->state.reference_camera, RenderOptions(), {}, &picture));
  return picture;
}

}  // namespace nerf
