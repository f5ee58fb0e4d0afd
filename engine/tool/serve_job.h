#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "engine/tool/json_lines.h"
#include "engine/tool/serve_loop.h"
#include "engine/tool/serve_messages.h"
#include "engine/tool/time_share.h"
#include "engine/train/trainer.h"

namespace nerf {

// How often the engine says that it is alive while it is at work.
inline constexpr absl::Duration kServeHeartbeat = absl::Seconds(1);

// The job in work: what the trainer tells goes out as messages, and between its steps what waits in
// the mailbox is answered.
class ServeLoop::Job final : public TrainerObserver {
 public:
  // What is given by reference outlives the job.
  Job(ServeLoop* loop, const TrainMessage& message, std::stop_token stop);

  const std::string& name() const { return message_.job; }
  std::stop_token stop() const { return stop_; }
  void RequestStop(bool checkpoint) { stop_mode_checkpoint_ = checkpoint; }
  // Unset until a stop was asked for.
  std::optional<bool> stop_mode_checkpoint() const { return stop_mode_checkpoint_; }

  void Begin(Trainer* trainer) { trainer_ = trainer; }
  void Finish();
  const Trainer* trainer() const { return trainer_; }

  // The weights as they stand, as files would hold them; they stay so while the training goes on.
  // nullptr before the first step can be taken. Copied once for all renders of the same step.
  std::shared_ptr<SceneRenderer> CurrentRenderer();

  void OnProgress(const TrainProgress& progress) override;
  absl::Status OnPreview(const TrainPreview& preview) override;
  absl::Status OnCheckpointDue() override { return WriteCheckpoint(); }
  void OnWarning(const std::string& text) override;
  absl::Status BetweenSteps() override;

  // Writes the checkpoint of the step that stands, and says so. Once a step: a second one would be
  // the same bytes, which the worker uploads and commits again.
  absl::Status WriteCheckpoint();

  // Says that the job is alive where no step has been taken for a while.
  void Heartbeat();

  absl::Status BetweenEvaluatedViews(size_t n_done, size_t n_views);

  const std::string& checkpoint() const { return checkpoint_; }
  const std::string& model() const { return model_; }

 private:
  // Behind a render in work, and once a stop was asked for, what can wait does so.
  absl::Status AnswerMail();
  void SendProgress();

  ServeLoop* const loop_;
  const TrainMessage& message_;
  const std::stop_token stop_;
  Trainer* trainer_ = nullptr;
  std::optional<bool> stop_mode_checkpoint_;
  TimeShare share_;
  std::shared_ptr<SceneRenderer> renderer_;  // of rendered_step_
  uint32_t rendered_step_ = 0;
  JsonObject last_progress_;
  SteadyTime last_sent_;
  std::string checkpoint_, model_;           // the last ones written
  std::optional<uint32_t> checkpoint_step_;  // theirs, once they are sent
};

}  // namespace nerf
