#include "engine/train/trainer.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "engine/base/check.h"
#include "engine/base/method_list/method_descriptions.h"
#include "engine/base/trace.h"
#include "engine/scene/pictures/image_resize.h"
#include "engine/train/batch/coarse_views.h"
#include "engine/train/ranks/rank_views.h"
#include "engine/train/ranks/rank_words.h"
#include "engine/train/schedule.h"
#include "engine/views/measure/image_metrics.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// The state is copied every 500 steps, after step 4000 every eighth of the steps so far: a copy of
// 2^19 entries a level takes a tenth of a second.
constexpr uint32_t kMinCopySteps = 500, kCopyStepsDivisor = 8;
// Previews may take at most this share of the time, however large the view is.
constexpr double kMaxPreviewShare = 0.1;
constexpr double kCheckpointBudgetShare = 0.2, kMaxCheckpointShare = 0.02;
constexpr absl::Duration kMinCheckpointInterval = absl::Seconds(1);
// Of a preview. An untrained field has no empty space to skip: 80 us of a core per ray (fox).
constexpr double kMaxPreviewRays = 1 << 18;
// The occupied share changes only when the grid is updated.
constexpr uint32_t kGridCheckSteps = 16;

// The camera with the most pixels; nullptr without views.
const Camera* LargestOf(const std::vector<View>& views) {
  const Camera* largest = nullptr;
  double most = 0;
  for (const View& view : views) {
    const double n_pixels = static_cast<double>(view.camera.width) * view.camera.height;
    if (n_pixels <= most) continue;
    most = n_pixels;
    largest = &view.camera;
  }
  return largest;
}

void SetPictureSizes(const Scene& scene, TrainProgress* progress) {
  if (scene.picture_width > 0) {
    progress->picture_width = scene.picture_width;
    progress->picture_height = scene.picture_height;
  }
  if (const Camera* trained = LargestOf(scene.train); trained != nullptr) {
    progress->trained_width = trained->width;
    progress->trained_height = trained->height;
  }
  if (const Camera* evaluated = LargestOf(scene.test); evaluated != nullptr) {
    progress->evaluated_width = evaluated->width;
    progress->evaluated_height = evaluated->height;
  }
}

// Of the pixels of its pictures, those that training draws from.
double DrawnShare(const Scene& scene) {
  if (scene.shown_runs.empty()) return 1;
  uint64_t n_pixels = 0;
  for (const View& view : scene.train)
    n_pixels += static_cast<uint64_t>(view.camera.width) * view.camera.height;
  return static_cast<double>(PixelsOfRuns(scene.shown_runs, n_pixels)) /
         static_cast<double>(n_pixels);
}

}  // namespace

Trainer::Trainer(const Scene* scene, TrainState state, TrainingStep* step, ThreadPool* pool,
                 const Clock* clock, TrainerOptions options, TrainerObserver* observer)
    : scene_(scene),
      state_(std::move(state)),
      step_(step),
      pool_(pool),
      cpu_(NewCpuRenderDevice(pool)),
      clock_(clock),
      options_(options),
      observer_(observer),
      drawn_share_(DrawnShare(*scene)),
      watchdog_(static_cast<uint32_t>(state_.config.warmup_steps)) {
  watchdog_.Restore(state_.watchdog);
  if (options_.group != nullptr && !Follows()) pause_ = std::make_shared<RankPause>(options_.group);
}

Trainer::~Trainer() {
  if (pause_ != nullptr) pause_->Close();
}

double Trainer::Fraction() const {
  Budget budget = state_.config.budget;
  if (budget.kind != BudgetKind::kSteps) budget.amount /= step_->Share().stride;
  return FractionSpent(budget, state_.step, state_.n_trained, state_.seconds);
}

void Trainer::GoToOwnStep() {
  const Budget& budget = state_.config.budget;
  const uint32_t now = state_.step;
  double next = step_->Share().NextFrom(now);
  if (budget.kind == BudgetKind::kSteps) next = std::min(next, budget.amount);
  // A training that stops early has the number of steps that was asked for.
  if (options_.stop_after.has_value() && now <= *options_.stop_after)
    next = std::min(next, static_cast<double>(*options_.stop_after));
  state_.step = std::max(now, static_cast<uint32_t>(next));
}

absl::StatusOr<TrainOutcome> Trainer::Run(std::stop_token stop) {
  GoToOwnStep();
  first_fraction_ = checkpoint_fraction_ = Fraction();
  first_seconds_ = state_.seconds;
  last_progress_ = last_checkpoint_ = clock_->Now();
  next_preview_ = last_progress_ + options_.preview_interval;
  Remember();
  next_pixels_ = step_->NextPixels(ScheduleFraction());
  NERF_ASSIGN_OR_RETURN(const TrainOutcome outcome, Follows() ? Follow() : Lead(stop));
  if (interval_.n_steps > 0) ReportProgress();
  return outcome;
}

absl::StatusOr<TrainOutcome> Trainer::Lead(const std::stop_token& stop) {
  NERF_ASSIGN_OR_RETURN(outcome_, RunSteps(stop));
  CollectState();
  if (pause_ != nullptr) pause_->Begin();
  return outcome_;
}

absl::StatusOr<TrainOutcome> Trainer::RunSteps(const std::stop_token& stop) {
  while (Fraction() < 1) {
    if (stop.stop_requested()) return TrainOutcome::kStopped;
    if (options_.stop_after.has_value() && state_.step >= *options_.stop_after)
      return TrainOutcome::kStoppedAfter;
    const GroupTraffic before =
        options_.group != nullptr ? options_.group->traffic() : GroupTraffic();
    SayStep();
    const StepResult result = RunStep();
    if (options_.group != nullptr) step_traffic_ += options_.group->traffic().Since(before);
    if (options_.after_step) options_.after_step(state_, step_traffic_);
    NERF_RETURN_IF_ERROR(Watch(result));
    NERF_RETURN_IF_ERROR(NotifyObserver(stop));
  }
  return TrainOutcome::kFinished;
}

void Trainer::EndRanks() {
  if (pause_ == nullptr) return;
  pause_->Close();
  TellRanks(options_.group, {RankWord::Kind::kEnd, static_cast<int32_t>(outcome_)});
}

absl::StatusOr<TrainOutcome> Trainer::Follow() {
  RankViews views(options_.group, state_.geometry.near, pool_);
  while (true) {
    const RankWord word = HearRank0(options_.group);
    switch (word.kind) {
      case RankWord::Kind::kWait:
        break;
      case RankWord::Kind::kStep:
        NERF_RETURN_IF_ERROR(Watch(RunStep()));
        break;
      case RankWord::Kind::kCollect:
        step_->CollectState();
        break;
      case RankWord::Kind::kLoadViews:
        views.Load(step_->Snapshot());
        break;
      case RankWord::Kind::kView:
        views.Render();
        break;
      case RankWord::Kind::kEnd:
        return static_cast<TrainOutcome>(word.outcome);
    }
    NERF_RETURN_IF_ERROR(observer_->BetweenSteps());
  }
}

void Trainer::SayStep() {
  if (options_.group == nullptr) return;
  const SteadyTime begin = clock_->Now();
  TellRanks(options_.group, {RankWord::Kind::kStep});
  telling_seconds_ += absl::ToDoubleSeconds(clock_->Now() - begin);
}

// For rank 0 between two steps, while the others wait for its word.
void Trainer::CollectState() {
  if (options_.group == nullptr) return;
  TellRanks(options_.group, {RankWord::Kind::kCollect});
  step_->CollectState();
}

void Trainer::ChoosePictures() {
  const int level =
      MethodDescriptionOf(state_.config).PictureLevel(state_.config, ScheduleFraction());
  if (level == picture_level_) return;
  picture_level_ = level;
  ring_.reset();  // before what it reads
  sampler_.reset();
  coarse_views_.clear();
  if (step_->DrawsPixels()) return;
  const bool is_fed = options_.central_feed && Follows();
  const bool reduces = level > 0 && !is_fed;
  if (reduces) coarse_views_ = ReducedViews(scene_->train, options_.pictures, level, pool_);
  const std::span<const View> views =
      reduces ? std::span<const View>(coarse_views_) : scene_->train;
  sampler_ = std::make_unique<PixelSampler>(
      views, TrainingBackground(state_.config.background, scene_->has_alpha), state_.config.seed,
      scene_->alpha_is_mask, reduces ? nullptr : options_.pictures,
      DrawsFromRuns() ? std::span<const uint32_t>(scene_->shown_runs)
                      : std::span<const uint32_t>());
  // The errors are those after the last step, so that no batch can be drawn ahead.
  if (step_->Errors() != nullptr) choice_ = std::make_unique<ErrorChoice>(views);
  if (options_.batches_ahead == 0 || is_fed || choice_ != nullptr) return;
  ring_ = std::make_unique<SamplerRing>(sampler_.get(), options_.batches_ahead, state_.step,
                                        next_pixels_, DrawnPixels(), step_->Share().stride);
}

bool Trainer::DrawsFromRuns() const {
  return picture_level_ == 0 && step_->Errors() == nullptr && !scene_->shown_runs.empty();
}

IndexRange Trainer::DrawnPixels() const {
  if (options_.central_feed) return {0, Follows() ? 0 : next_pixels_};
  return step_->OwnPixels(next_pixels_, ScheduleFraction());
}

void Trainer::DrawBatch() {
  const TraceSpan span("draw pixels");
  const SteadyTime begin = clock_->Now();
  if (step_->DrawsPixels()) {
    batch_.step = state_.step;
    batch_.n_pixels = next_pixels_;
  } else if (ring_ != nullptr) {
    ring_->Take(state_.step, next_pixels_, DrawnPixels(), pool_, &batch_);
  } else {
    if (choice_ != nullptr) choice_->Update(*step_->Errors());
    sampler_->FillRange(state_.step, next_pixels_, DrawnPixels(), pool_, &batch_, choice_.get());
  }
  if (options_.central_feed && options_.group != nullptr)
    FeedRanks(options_.group, static_cast<int>(scene_->train.size()), &batch_);
  const double seconds = absl::ToDoubleSeconds(clock_->Now() - begin);
  interval_.stall_seconds += seconds;
  stall_seconds_ += seconds;
}

StepResult Trainer::RunStep() {
  const TraceSpan span("step");
  ChoosePictures();
  const SteadyTime begin = clock_->Now();
  DrawBatch();
  batch_.fraction = ScheduleFraction();
  batch_.picture_level = picture_level_;
  batch_.rate_factor = watchdog_.state().rate_factor;
  StepResult result = step_->Run(batch_);
  if (DrawsFromRuns()) {  // means over all pixels; those not drawn count as free of error
    result.loss *= drawn_share_;
    result.squared_error *= drawn_share_;
  }
  const SteadyTime end = clock_->Now();
  double seconds = std::exchange(telling_seconds_, 0) + absl::ToDoubleSeconds(end - begin);
  // Budgets and schedules may follow the time, which must be the same everywhere.
  if (options_.group != nullptr) {
    BroadcastValue(options_.group, 0, &seconds);
    telling_seconds_ = absl::ToDoubleSeconds(clock_->Now() - end);
  }

  last_step_ = state_.step++;
  GoToOwnStep();
  state_.n_trained += result.n_trained;
  state_.n_marched += result.n_marched;
  state_.n_rays += result.n_rays;
  state_.seconds += seconds;
  next_pixels_ = step_->NextPixels(ScheduleFraction());

  ++interval_.n_steps;
  interval_.loss += result.loss;
  interval_.squared_error += result.squared_error;
  interval_.n_trained += result.n_trained;
  interval_.n_rays += result.n_rays;
  interval_.seconds += seconds;
  return result;
}

void Trainer::Remember() {
  step_->Remember();
  next_copy_ = state_.step + std::max(kMinCopySteps, state_.step / kCopyStepsDivisor);
}

absl::Status Trainer::Watch(const StepResult& result) {
  const bool check_grid = PassedMultipleOf(kGridCheckSteps) || result.n_marched == 0;
  const Watchdog::Verdict verdict =
      watchdog_.Observe(state_.step, result, check_grid ? step_->OccupiedFraction() : 1.0);
  if (verdict == Watchdog::Verdict::kHealthy) {
    state_.watchdog = watchdog_.state();
    if (state_.step >= next_copy_) {
      const TraceSpan span("copy for the watchdog");
      step_->CollectState();
      Remember();
    }
    return absl::OkStatus();
  }
  // A grid that is empty for the first time may just have been pruned too early: the weights stay.
  const bool reopen = verdict == Watchdog::Verdict::kGridEmpty;
  const bool restore = !reopen || watchdog_.state().n_recoveries > 0;
  NERF_RETURN_IF_ERROR(watchdog_.BeginRecovery(verdict, state_.step, restore));
  if (restore) {
    NERF_RETURN_IF_ERROR(step_->Restore());
    next_pixels_ = step_->NextPixels(ScheduleFraction());
  }
  if (reopen) step_->ReopenGrid();
  state_.watchdog = watchdog_.state();
  interval_ = {};  // its loss may be NaN
  observer_->OnWarning(fmt::format("step {}: {}; {}{} (recovery {} of {})", state_.step,
                                   VerdictText(verdict),
                                   restore ? "going back to the last good weights at half the rate"
                                           : "opening the occupancy grid again",
                                   restore && reopen ? ", with an open grid" : "",
                                   watchdog_.state().n_recoveries, Watchdog::kMaxRecoveries));
  return absl::OkStatus();
}

void Trainer::ReportProgress() {
  TrainProgress progress;
  progress.step = state_.step;
  progress.samples = static_cast<double>(state_.n_trained);
  progress.marched = static_cast<double>(state_.n_marched);
  progress.rays = static_cast<double>(state_.n_rays);
  progress.loss = interval_.loss / interval_.n_steps;
  progress.psnr_train = PsnrFromSquaredError(interval_.squared_error / interval_.n_steps);
  if (interval_.seconds > 0) {
    progress.samples_per_second = static_cast<double>(interval_.n_trained) / interval_.seconds;
    progress.rays_per_second = static_cast<double>(interval_.n_rays) / interval_.seconds;
    progress.stall_fraction = interval_.stall_seconds / interval_.seconds;
  }
  progress.seconds = state_.seconds;
  progress.fraction = Fraction();
  const double over = step_->TimeFraction(progress.fraction);
  const double spent = over - step_->TimeFraction(first_fraction_);
  if (spent > 0) {
    progress.eta_seconds = (1 - over) * (state_.seconds - first_seconds_) / spent;
  }
  // Methods without a grid say 1.
  if (const double share = step_->OccupiedFraction(); share < 1) progress.occupied_share = share;
  SetPictureSizes(*scene_, &progress);
  interval_ = {};
  observer_->OnProgress(progress);
}

bool Trainer::IsCheckpointDue(SteadyTime now) const {
  const absl::Duration since = now - last_checkpoint_;
  if (since >= options_.checkpoint_interval) return true;
  if (options_.checkpoint_interval == absl::InfiniteDuration()) return false;
  const double fraction = Fraction();
  return fraction < 1 && fraction - checkpoint_fraction_ >= kCheckpointBudgetShare &&
         since >= std::max(kMinCheckpointInterval, checkpoint_pause_ / kMaxCheckpointShare);
}

absl::Status Trainer::NotifyObserver(std::stop_token stop) {
  const SteadyTime now = clock_->Now();
  if (now - last_progress_ >= options_.progress_interval) {
    last_progress_ = now;
    if (interval_.n_steps > 0) ReportProgress();
  }
  const bool preview_due = now >= next_preview_ && !scene_->test.empty();
  const bool checkpoint_due = IsCheckpointDue(now);
  if ((!preview_due && !checkpoint_due) || stop.stop_requested()) {
    if (options_.group == nullptr || stop.stop_requested() || !observer_->HasWork()) {
      return observer_->BetweenSteps();
    }
    CollectState();
    const PauseScope pause(pause_.get());
    return observer_->BetweenSteps();
  }
  CollectState();
  const PauseScope pause(pause_.get());
  if (preview_due) {
    const TraceSpan span("preview");
    const std::optional<TrainPreview> preview = Preview(stop);
    if (preview.has_value()) {
      NERF_RETURN_IF_ERROR(observer_->OnPreview(*preview));
    }
    const SteadyTime after = clock_->Now();
    next_preview_ = after + std::max(options_.preview_interval, (after - now) / kMaxPreviewShare);
  }
  if (checkpoint_due && !stop.stop_requested()) {
    const TraceSpan span("checkpoint");
    const SteadyTime begin = clock_->Now();
    NERF_RETURN_IF_ERROR(observer_->OnCheckpointDue());
    last_checkpoint_ = clock_->Now();
    checkpoint_pause_ = last_checkpoint_ - begin;
    checkpoint_fraction_ = Fraction();
  }
  return observer_->BetweenSteps();
}

TensorFile Trainer::Checkpoint() const {
  TensorFile file;
  step_->Save(&file);
  StoreTrainState(state_, TrainFileKind::kCheckpoint, &file);
  return file;
}

TensorFile Trainer::Model() const {
  TensorFile file;
  step_->SaveModel(&file);
  TrainState state = state_;
  const size_t n = state.capture.size();
  for (size_t i = 0; i < n; ++i) {
    Mat34& pose = state.capture[i].camera.camera_to_world;
    pose = step_->FoundPose(static_cast<int>(i * state.n_train_views / n), pose);
  }
  StoreTrainState(state, TrainFileKind::kModel, &file);
  return file;
}

double Trainer::StallFraction() const {
  const double seconds = state_.seconds - first_seconds_;
  return seconds > 0 ? std::min(1.0, stall_seconds_ / seconds) : 0;
}

std::unique_ptr<SceneRenderer> Trainer::NewRenderer() const {
  if (pause_ != nullptr && options_.ranks_share_views)
    return NewRankRenderer(pause_, step_->Snapshot(), state_.geometry.near, pool_);
  RenderDevice* const device =
      options_.render_device != nullptr ? options_.render_device : cpu_.get();
  return device->Load(step_->Snapshot(), state_.geometry, RenderPrecisionOf(state_.config));
}

std::optional<TrainPreview> Trainer::Preview(std::stop_token stop) const {
  if (scene_->test.empty()) return std::nullopt;
  const View& view = scene_->test[scene_->test.size() / 2];
  const Camera camera = WithFoundFocal(step_->FoundLenses(), view.camera);
  const ReducedSize size =
      FitPixels(camera.width, camera.height, kMaxPreviewRays / RaysPerPixel(state_.config));
  RenderOptions options;
  options.background = BackgroundColor(state_.evaluation_background);
  options.min_transmittance = MinTransmittance(state_.config);
  options.rays_per_pixel = RaysPerPixel(state_.config);
  const std::unique_ptr<SceneRenderer> renderer = NewRenderer();
  const std::unique_ptr<PictureRender> render =
      renderer->Begin(Resized(camera, size.width, size.height), options);
  const auto tell = [this] {
    observer_->DuringPreview();
    return false;
  };
  while (!render->finished()) {
    if (!render->Advance(tell, stop)) return std::nullopt;
  }
  TrainPreview preview;
  preview.step = state_.step;
  preview.image = ColorsOf(render->TakePicture());
  preview.psnr = PsnrAgainst(AreaResized(view.image, size.width, size.height), options.background,
                             scene_->alpha_is_mask, preview.image);
  return preview;
}

}  // namespace nerf
