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
#include "engine/program/serve/serve_loop.h"
#include "engine/program/serve/task_thread.h"
#include "engine/program/serve/time_share.h"
#include "engine/program/session/training_run.h"
#include "nerf/internal/engine.pb.h"

namespace nerf {

// How often the engine reports while it works.
inline constexpr absl::Duration kServeHeartbeat = absl::Seconds(1);
inline constexpr absl::Duration kDefaultPreviewInterval = absl::Seconds(10);

// Training time between checkpoints.
inline absl::Duration CheckpointInterval(const internal::Train& train) {
  const double seconds = train.checkpoint_interval_seconds();
  return seconds > 0 ? absl::Seconds(seconds) : absl::InfiniteDuration();
}

// The running job. Sends what happens in the training as messages, and handles waiting requests
// between two steps.
class ServeLoop::Job final : public TrainingRunObserver {
 public:
  // loop, name and train outlive the job.
  Job(ServeLoop* loop, const std::string& name, const internal::Train& train, std::stop_token stop);

  const std::string& name() const { return name_; }
  std::stop_token stop() const { return stop_; }
  // With a checkpoint, one is written before the job ends.
  void RequestStop(bool checkpoint) { stop_with_checkpoint_ = checkpoint; }
  // nullptr before the first step and after the last.
  const Trainer* trainer() const { return trainer_; }

  // A renderer with a copy of the current weights, shared by all renders of the same step. Equal to
  // the renderer of a file written now. nullptr while trainer() is.
  // For a live frame the weights may be a second old.
  std::shared_ptr<SceneRenderer> CurrentRenderer(bool live);
  // The step of the weights that CurrentRenderer returned last.
  uint32_t rendered_step() const { return rendered_step_; }

  void OnBegin(const TrainingSession& session, Trainer* trainer) override;
  void OnProgress(const TrainProgress& progress) override;
  absl::Status OnPreview(const TrainPreview& preview) override;
  void DuringPreview() override { Heartbeat(); }
  absl::Status OnCheckpointDue() override;
  void OnWarning(const std::string& text) override;
  absl::Status BetweenSteps() override;
  bool HasWork() override;
  absl::Status OnStopped() override;
  void OnEvaluationForecast(const EvaluationForecast& forecast) override {
    expected_evaluation_ = forecast.expected;
  }
  absl::Status OnEvaluatedViews(size_t n_done, size_t n_views) override;
  void OnEnd() override;

  // Sends the last progress again if nothing was sent for kServeHeartbeat.
  void Heartbeat();

  // Waits for the files of the last checkpoint. Their errors.
  absl::Status AwaitFiles();

 private:
  // Handles waiting requests. During a render, and after a stop was asked for, only urgent ones.
  absl::Status HandleRequests();
  void SendProgress();

  ServeLoop* const loop_;
  const std::string& name_;
  const internal::Train& train_;
  const std::stop_token stop_;
  Trainer* trainer_ = nullptr;
  bool stop_with_checkpoint_ = false;
  TimeShare share_;
  std::shared_ptr<SceneRenderer> renderer_;  // of rendered_step_
  uint32_t rendered_step_ = 0;
  SteadyTime renderer_made_;
  std::optional<TrainProgress> last_progress_;
  SteadyTime last_sent_;
  std::optional<uint32_t> checkpoint_step_;  // of the last checkpoint
  SteadyTime scored_time_;                   // of the last checkpoint with a preview, or the begin
  std::optional<uint32_t> preview_step_;     // of the last preview message
  bool said_no_work_ = false;                // by HasWork, until the BetweenSteps that follows it
  absl::Duration expected_evaluation_;
  SteadyTime evaluation_began_;
  absl::Status files_status_;        // of the writer; read after it was waited for
  TaskThread writer_{"checkpoint"};  // last member: it uses those above
};

}  // namespace nerf
