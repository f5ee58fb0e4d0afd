#pragma once

#include <functional>

#include "absl/status/status.h"
#include "engine/tool/rank_forecast.h"
#include "engine/tool/rank_session.h"
#include "engine/tool/training_run.h"
#include "engine/tool/training_session.h"

namespace nerf {

// The part of a rank other than 0: it does as rank 0 says and writes nothing. Errors: Unavailable
// for all that rank 0 knows, too; its own.
absl::Status FollowRank0(const RankFlags& flags, TrainRequest request, int n_threads);

// RunTraining, of rank 0 of `ranks` or, where that is null, alone. A forecast of the ranks is told
// to on_forecast before, and with what came true to on_end. Errors: a lost rank is Unavailable.
struct RankReports {
  std::function<void(const RankFigures& forecast)> on_forecast;
  std::function<void(const RankFigures& measured, const RankFigures& forecast)> on_end;
};
absl::StatusOr<TrainingRunResult> LeadTraining(RankSession* ranks, TrainingSession* session,
                                               const TrainingRunOptions& options, ThreadPool* pool,
                                               const Clock* clock, TrainingRunObserver* observer,
                                               const RankReports& reports, std::stop_token stop);

}  // namespace nerf
