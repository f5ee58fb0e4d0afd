#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "engine/base/parallel_for.h"
#include "engine/base/protocol/progress.h"
#include "engine/program/session/evaluation_forecast.h"
#include "engine/program/session/training_session.h"
#include "engine/train/group/group.h"
#include "engine/train/trainer.h"
#include "engine/views/measure/evaluation.h"

namespace nerf {

// Receives the events of RunTraining, on the thread that trains.
class TrainingRunObserver : public TrainerObserver {
 public:
  // Before the first step. The trainer lives until OnEnd.
  virtual void OnBegin(const TrainingSession& session, Trainer* trainer) = 0;
  // Writes checkpoint and model of the current step, unless that is done. Called for the last time
  // after the last step.
  absl::Status OnCheckpointDue() override = 0;
  // A stop ended training or evaluation.
  virtual absl::Status OnStopped() = 0;
  // Before the evaluation at the end.
  virtual void OnEvaluationForecast(const EvaluationForecast& forecast) = 0;
  // During the evaluation: first with n_done 0, then after each view.
  virtual absl::Status OnEvaluatedViews(size_t n_done, size_t n_views) = 0;
  // The last call, however the run ended.
  virtual void OnEnd() = 0;
};

struct TrainingRunOptions {
  TrainerOptions trainer;
  bool evaluate = true;  // the test views at the end; not those of a part (StepShare)
  // Scores besides PSNR, of `train`.
  bool with_all_scores = false;  // SSIM, PSNR after color alignment
  const Lpips* lpips = nullptr;  // outlives the run
  std::function<absl::Status(const View&, const ImageU8&)> on_image;  // of the evaluation
};

struct TrainingRunResult {
  TrainOutcome outcome = TrainOutcome::kFinished;  // kStopped also for a stop in the evaluation
  TrainSummary summary;                            // psnr is unset after a stop; no file names
  std::optional<EvaluationResult> evaluation;      // of the test views, if there are any
  GroupTraffic step_traffic;                       // between ranks, of the steps
};

// Trains the session to its end, writes its files and evaluates the test views. What is pointed to
// outlives the call. Errors: those of the trainer and of the observer.
absl::StatusOr<TrainingRunResult> RunTraining(TrainingSession* session,
                                              const TrainingRunOptions& options, ThreadPool* pool,
                                              const Clock* clock, TrainingRunObserver* observer,
                                              std::stop_token stop);

}  // namespace nerf
