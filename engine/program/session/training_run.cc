#include "engine/program/session/training_run.h"

#include <utility>
#include <vector>

#include "common/status_macros.h"

namespace nerf {
namespace {

TrainSummary SummaryOf(const TrainState& begin, const Trainer& trainer) {
  const TrainState& end = trainer.state();
  TrainSummary summary;
  summary.step = end.step;
  summary.samples = static_cast<double>(end.n_trained);
  summary.marched = static_cast<double>(end.n_marched);
  summary.rays = static_cast<double>(end.n_rays);
  summary.seconds = end.seconds;
  const double seconds = end.seconds - begin.seconds;
  if (seconds > 0) {
    summary.samples_per_second = static_cast<double>(end.n_trained - begin.n_trained) / seconds;
  }
  summary.stall_fraction = trainer.StallFraction();
  summary.peak_rss_bytes = static_cast<double>(PeakRssBytes());
  return summary;
}

// Errors: Cancelled after a stop; those of the observer. Requires test views.
absl::StatusOr<EvaluationResult> EvaluateTestViews(const Scene& scene, const Trainer& trainer,
                                                   const TrainingRunOptions& run_options,
                                                   ThreadPool* pool, const Clock& clock,
                                                   TrainingRunObserver* observer,
                                                   std::stop_token stop) {
  EvaluationOptions options;
  options.alpha_is_mask = scene.alpha_is_mask;
  options.background = trainer.state().evaluation_background;
  options.min_transmittance = MinTransmittance(trainer.state().config);
  options.rays_per_pixel = RaysPerPixel(trainer.state().config);
  options.picture_pixel = MedianPixel(trainer.state().capture);
  options.with_ssim = options.with_color_alignment = run_options.with_all_scores;
  options.lpips = run_options.lpips;
  const std::vector<LensScale> lenses = trainer.FoundLenses();
  options.lenses = lenses;
  const std::unique_ptr<SceneRenderer> renderer = trainer.NewRenderer();
  NERF_ASSIGN_OR_RETURN(const EvaluationForecast forecast,
                        ForecastOf(renderer.get(), scene.test, options, clock, stop));
  observer->OnEvaluationForecast(forecast);
  size_t n_done = 0;
  NERF_RETURN_IF_ERROR(observer->OnEvaluatedViews(n_done, scene.test.size()));
  options.on_image = [&](const View& view, const ImageU8& image) -> absl::Status {
    if (run_options.on_image) NERF_RETURN_IF_ERROR(run_options.on_image(view, image));
    return observer->OnEvaluatedViews(++n_done, scene.test.size());
  };
  return EvaluateViews(renderer.get(), scene.test, options, pool, clock, stop);
}

absl::StatusOr<TrainingRunResult> TrainAndEvaluate(const TrainingSession& session, Trainer* trainer,
                                                   const TrainingRunOptions& options,
                                                   ThreadPool* pool, const Clock& clock,
                                                   TrainingRunObserver* observer,
                                                   std::stop_token stop) {
  TrainingRunResult result;
  const auto stopped = [&]() -> absl::StatusOr<TrainingRunResult> {
    NERF_RETURN_IF_ERROR(observer->OnStopped());
    result.outcome = TrainOutcome::kStopped;
    result.summary = SummaryOf(session.state, *trainer);
    return result;
  };
  NERF_ASSIGN_OR_RETURN(result.outcome, trainer->Run(stop));
  if (result.outcome == TrainOutcome::kStopped) return stopped();
  NERF_RETURN_IF_ERROR(observer->OnCheckpointDue());
  // A part shows its own share of the scene alone.
  const bool evaluate =
      options.evaluate && session.state.config.evaluate != 0 && session.step->Share().stride == 1;
  if (evaluate && !session.scene.test.empty()) {
    absl::StatusOr<EvaluationResult> found =
        EvaluateTestViews(session.scene, *trainer, options, pool, clock, observer, stop);
    if (absl::IsCancelled(found.status())) return stopped();
    NERF_RETURN_IF_ERROR(found.status());
    result.evaluation = *std::move(found);
  }
  result.summary = SummaryOf(session.state, *trainer);
  if (!evaluate) return result;
  const auto score = [&](double EvaluationResult::*mean) {
    return result.evaluation.has_value() ? (*result.evaluation).*mean : kUnknownFigure;
  };
  result.summary.psnr = score(&EvaluationResult::psnr);
  if (options.with_all_scores) result.summary.ssim = score(&EvaluationResult::ssim);
  if (options.lpips != nullptr) result.summary.lpips = score(&EvaluationResult::lpips);
  return result;
}

}  // namespace

absl::StatusOr<TrainingRunResult> RunTraining(TrainingSession* session,
                                              const TrainingRunOptions& options, ThreadPool* pool,
                                              const Clock* clock, TrainingRunObserver* observer,
                                              std::stop_token stop) {
  TrainerOptions trainer_options = options.trainer;
  trainer_options.pictures = session->pictures.get();
  Trainer trainer(&session->scene, session->state, session->step.get(), pool, clock,
                  trainer_options, observer);
  observer->OnBegin(*session, &trainer);
  // Runs also if a device throws: the observer must drop its pointer before the trainer is
  // destroyed.
  struct AtEnd {
    TrainingRunObserver* observer;
    ~AtEnd() { observer->OnEnd(); }
  } at_end{observer};
  NERF_ASSIGN_OR_RETURN(TrainingRunResult result, TrainAndEvaluate(*session, &trainer, options,
                                                                   pool, *clock, observer, stop));
  result.step_traffic = trainer.step_traffic();
  trainer.EndRanks();
  return result;
}

}  // namespace nerf
