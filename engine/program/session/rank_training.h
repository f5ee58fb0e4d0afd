#pragma once

#include <functional>

#include "absl/status/status.h"
#include "engine/program/session/rank_forecast.h"
#include "engine/program/session/rank_session.h"
#include "engine/program/session/training_run.h"
#include "engine/program/session/training_session.h"

namespace nerf {

// Runs a rank other than 0: it does as rank 0 says and writes nothing. Errors: Unavailable for
// errors that rank 0 reports, too; others are this rank's own.
absl::Status FollowRank0(const RankFlags& flags, TrainRequest request, int n_threads);

// What LeadTraining reports: a forecast before the training, again when it is renewed, and at the
// end what was measured of each of them.
struct RankReports {
  std::function<void(const RankFigures& forecast)> on_forecast;
  std::function<void(const RankFigures& measured, const RankFigures& forecast)> on_end;
};

// RunTraining as rank 0 of `ranks`; alone if that is null. Errors: Unavailable for a lost rank.
absl::StatusOr<TrainingRunResult> LeadTraining(RankSession* ranks, TrainingSession* session,
                                               const TrainingRunOptions& options, ThreadPool* pool,
                                               const Clock* clock, TrainingRunObserver* observer,
                                               const RankReports& reports, std::stop_token stop);

}  // namespace nerf
