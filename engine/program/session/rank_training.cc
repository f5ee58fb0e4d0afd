#include "engine/program/session/rank_training.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "engine/train/trainer.h"

namespace nerf {

absl::Status FollowRank0(const RankFlags& flags, TrainRequest request, int n_threads) {
  const RealClock clock;
  ThreadPool pool(n_threads);
  NERF_ASSIGN_OR_RETURN(const std::unique_ptr<RankSession> ranks, RankSession::Open(flags));
  request.group = ranks->group();
  Problems problems;
  const auto session = OpenTrainingSession(request, &pool, &problems, {});
  const absl::Status agreed =
      ranks->Agree(session.status(), session.ok() ? session->get() : nullptr);
  if (!agreed.ok()) return absl::UnavailableError(std::string(agreed.message()));
  TrainingSession& s = **session;
  TrainerObserver silent;
  TrainerOptions options;
  options.group = ranks->group();
  options.central_feed = flags.central_feed;
  options.batches_ahead = flags.BatchesAhead(s.pictures != nullptr);
  options.pictures = s.pictures.get();
  options.progress_interval = absl::InfiniteDuration();
  Trainer trainer(&s.scene, s.state, s.step.get(), &pool, &clock, options, &silent);
  try {
    NERF_RETURN_IF_ERROR(ForecastRanks(ranks->group(), s, &pool, clock).status());
    return trainer.Run({}).status();
  } catch (const GroupError& e) {
    return ranks->Explain(e);
  }
}

absl::StatusOr<TrainingRunResult> LeadTraining(RankSession* ranks, TrainingSession* session,
                                               const TrainingRunOptions& options, ThreadPool* pool,
                                               const Clock* clock, TrainingRunObserver* observer,
                                               const RankReports& reports, std::stop_token stop) {
  if (ranks == nullptr) return RunTraining(session, options, pool, clock, observer, stop);
  try {
    Group* const group = ranks->group();
    const std::optional<uint32_t> stop_after = options.trainer.stop_after;
    NERF_ASSIGN_OR_RETURN(const RankFigures forecast,
                          ForecastRanks(group, *session, pool, *clock, stop_after));
    reports.on_forecast(forecast);
    const TrainState& begin = session->state;
    RankOutlook outlook(begin.config, forecast,
                        {begin.step, static_cast<double>(begin.n_trained), begin.seconds, {}},
                        session->step.get(), stop_after);
    TrainingRunOptions watched = options;
    watched.trainer.ranks_share_views = session->device == "cpu";
    watched.trainer.after_step = [&](const TrainState& state, const GroupTraffic& traffic) {
      const std::optional<RankFigures> renewed = outlook.AfterStep(state, traffic);
      if (renewed.has_value()) reports.on_forecast(*renewed);
    };
    NERF_ASSIGN_OR_RETURN(TrainingRunResult result,
                          RunTraining(session, watched, pool, clock, observer, stop));
    const TrainSummary& end = result.summary;
    for (const auto& [measured, of] : outlook.Compare(
             {static_cast<uint32_t>(end.step), end.samples, end.seconds, result.step_traffic})) {
      reports.on_end(measured, of);
    }
    return result;
  } catch (const GroupError& e) {
    return ranks->Explain(e);
  }
}

}  // namespace nerf
