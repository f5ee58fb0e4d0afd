#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "engine/base/parallel_for.h"
#include "engine/base/protocol/progress.h"
#include "engine/field/files/checkpoint.h"
#include "engine/scene/scene.h"
#include "engine/train/batch/error_choice.h"
#include "engine/train/batch/pixel_sampler.h"
#include "engine/train/batch/sampler_ring.h"
#include "engine/train/group/group.h"
#include "engine/train/ranks/rank_words.h"
#include "engine/train/training_step.h"
#include "engine/train/watchdog.h"
#include "engine/views/render/render_device.h"

namespace nerf {

// One test view, always the same, reduced to at most a quarter of a megapixel.
struct TrainPreview {
  uint32_t step = 0;
  double psnr = 0;  // dB, on the evaluation background
  ImageU8 image;    // RGB
};

// Receives events, always between two steps and on the training thread. Its time does not count as
// training.
class TrainerObserver {
 public:
  virtual ~TrainerObserver() = default;
  virtual void OnProgress(const TrainProgress&) {}
  // An error ends the training and is returned by Run.
  virtual absl::Status OnPreview(const TrainPreview&) { return absl::OkStatus(); }
  // Now and then while a preview is rendered.
  virtual void DuringPreview() {}
  // The checkpoint interval has passed: Trainer::Checkpoint() may be called.
  virtual absl::Status OnCheckpointDue() { return absl::OkStatus(); }
  // Something the user should know: a recovery, for example.
  virtual void OnWarning(const std::string&) {}
  // After each step and, on ranks other than 0, after each word of rank 0. Other work of the same
  // thread pool belongs here.
  virtual absl::Status BetweenSteps() { return absl::OkStatus(); }
  // Whether BetweenSteps will take long or read the weights, so that other ranks must know first.
  virtual bool HasWork() { return false; }
};

struct TrainerOptions {
  std::optional<uint32_t> stop_after;  // end early at this step; changes no schedule
  // Batches drawn ahead by a thread of their own (SamplerRing); 0: drawn between the steps by the
  // pool. Does not change the result.
  int batches_ahead = 0;
  // Where views are rendered, outlives the trainer; null: on the CPU, by the trainer's pool.
  RenderDevice* render_device = nullptr;
  // The ranks that train together, outlives the trainer; null: this process alone. Rank 0 leads:
  // its clock counts, it obeys stops and informs its observer; the others do as it says.
  Group* group = nullptr;
  // On rank 0 of a group, after each step; traffic: of this run's steps.
  std::function<void(const TrainState& state, const GroupTraffic& traffic)> after_step;
  // With a group: rank 0 draws every batch and sends it to the others. Else each rank draws its own
  // part. Does not change the result.
  bool central_feed = false;
  // With a group: all ranks render views, on their CPUs. Else rank 0 does, on render_device.
  bool ranks_share_views = true;
  // Has the training views' pixels where their images have none; outlives the trainer.
  const PictureFile* pictures = nullptr;
  absl::Duration progress_interval = absl::Seconds(1);
  absl::Duration preview_interval = absl::Seconds(10);
  // At most. A fifth of the budget is no longer than it, so that a short training that is lost does
  // not begin again, unless checkpoints would then take more than 2% of the time.
  absl::Duration checkpoint_interval = absl::InfiniteDuration();
};

enum class TrainOutcome {
  kFinished,      // the budget is spent
  kStoppedAfter,  // TrainerOptions::stop_after was reached before
  kStopped        // a stop was requested
};

// Runs a TrainingStep until its budget is spent. Draws batches, follows the schedules, recovers
// when the watchdog asks, informs the observer. All that determines the weights is in state() and
// in the step's tensors, so a run that is interrupted and resumed gives the same bytes. Exceptions:
// budgets in seconds, and recoveries, whose copy of the weights is kept in memory only. Used from
// one thread.
class Trainer {
 public:
  // `state` is new or that of a checkpoint which `step` has loaded. All pointees outlive the
  // trainer. scene->train is not empty.
  Trainer(const Scene* scene, TrainState state, TrainingStep* step, ThreadPool* pool,
          const Clock* clock, TrainerOptions options, TrainerObserver* observer);
  ~Trainer();

  // Errors: Aborted TRAINING_DIVERGED or GRID_EMPTY when the watchdog gives up; those of the
  // observer. Throws GroupError when a rank is lost, as Preview, NewRenderer and its renders do.
  // Called once. On rank 0 of a group the others help with views until EndRanks, for which theirs
  // waits.
  absl::StatusOr<TrainOutcome> Run(std::stop_token stop);

  // On rank 0, after Run: lets the other ranks end. Throws GroupError.
  void EndRanks();

  // Whether the budget is spent.
  bool IsFinished() const { return Fraction() >= 1; }

  // The current state, between two steps.
  const TrainState& state() const { return state_; }
  TensorFile Checkpoint() const;
  TensorFile Model() const;

  // A renderer of the current weights, rounded as in files, on the render device.
  std::unique_ptr<SceneRenderer> NewRenderer() const;
  std::vector<LensScale> FoundLenses() const { return step_->FoundLenses(); }

  // Share of this run's training time in which steps waited for their batch, from 0 to 1.
  double StallFraction() const;

  // Of this run's steps.
  const GroupTraffic& step_traffic() const { return step_traffic_; }

  // Reports progress now: the steps since the last report or, if there were none, the current
  // state.
  void ReportProgress();

  // Renders the preview, the middle test view, from the current weights. nullopt without test
  // views, or when a stop was requested meanwhile.
  std::optional<TrainPreview> Preview(std::stop_token stop) const;

 private:
  // Sums since the last progress report.
  struct Interval {
    int n_steps = 0;
    double loss = 0, squared_error = 0, seconds = 0, stall_seconds = 0;
    int64_t n_trained = 0, n_rays = 0;
  };

  bool Follows() const { return options_.group != nullptr && options_.group->rank() > 0; }
  absl::StatusOr<TrainOutcome> Lead(const std::stop_token& stop);
  absl::StatusOr<TrainOutcome> Follow();
  absl::StatusOr<TrainOutcome> RunSteps(const std::stop_token& stop);
  void SayStep();
  // Passes over the steps that are trained elsewhere.
  void GoToOwnStep();
  // Whether the last step made the number of steps reach a multiple of n.
  bool PassedMultipleOf(uint32_t n) const { return last_step_ / n != state_.step / n; }
  void CollectState();
  // Share of the budget that is spent. Of budgets in samples and seconds this training has its part
  // (StepShare).
  double Fraction() const;
  // How far the schedules are.
  double ScheduleFraction() const { return state_.schedule.At(Fraction()); }
  // Makes sampler_ and ring_ for the pictures that the next batch draws from, if they are others.
  void ChoosePictures();
  // Whether pixels come from Scene::shown_runs: full pictures, not chosen by their errors.
  bool DrawsFromRuns() const;
  // The pixels of a batch that are drawn here.
  IndexRange DrawnPixels() const;
  void DrawBatch();
  StepResult RunStep();
  void Remember();
  absl::Status Watch(const StepResult& result);
  absl::Status NotifyObserver(std::stop_token stop);
  bool IsCheckpointDue(SteadyTime now) const;

  const Scene* const scene_;
  TrainState state_;
  TrainingStep* const step_;
  ThreadPool* const pool_;
  const std::unique_ptr<RenderDevice> cpu_;
  const Clock* const clock_;
  const TrainerOptions options_;
  TrainerObserver* const observer_;
  const double drawn_share_;  // of the pixels of the full pictures

  int picture_level_ = -1;          // that sampler_ draws from; -1: none
  std::vector<View> coarse_views_;  // of that level, where it is not 0
  std::unique_ptr<PixelSampler> sampler_;
  std::unique_ptr<ErrorChoice> choice_;  // where the step has errors
  std::unique_ptr<SamplerRing> ring_;    // while batches are drawn ahead
  std::shared_ptr<RankPause> pause_;     // of rank 0 of a group
  TrainOutcome outcome_ = TrainOutcome::kFinished;
  GroupTraffic step_traffic_;
  Watchdog watchdog_;
  PixelBatch batch_;
  int next_pixels_ = 0;     // of the next batch
  uint32_t last_step_ = 0;  // steps finished before the last one
  uint32_t next_copy_ = 0;  // the step from which on the state is copied for the watchdog
  Interval interval_;
  double first_fraction_ = 0, first_seconds_ = 0;  // at the start of this run
  double stall_seconds_ = 0;                       // of this run
  double telling_seconds_ = 0;  // told to ranks since the last step, part of the next one's time
  SteadyTime last_progress_, next_preview_, last_checkpoint_;
  double checkpoint_fraction_ = 0;   // of the budget, at the last checkpoint
  absl::Duration checkpoint_pause_;  // for the last checkpoint
};

}  // namespace nerf
