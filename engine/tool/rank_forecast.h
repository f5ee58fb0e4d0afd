#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "engine/base/parallel_for.h"
#include "engine/group/group.h"
#include "engine/protocol/json.h"
#include "engine/tool/training_session.h"

namespace nerf {

// What a training by several ranks is expected to bring, or has brought.
struct RankFigures {
  int n_ranks = 1;
  double samples_per_second = 0;
  double alone_samples_per_second = 0;  // of rank 0 alone; 0: not measured
  double bytes_per_sample = 0;          // received by a rank, a trained sample of all ranks
  double exchange_fraction = 0;         // of the time, in transfers
  double link_bytes_per_second = 0;     // measured; 0: not measured
  double link_latency_seconds = 0;
};

// Measures the link between the ranks, some steps of rank 0 alone, and some of all ranks at once,
// each with a copy of the session's state, and computes what they will do together. Takes about
// two seconds. Called by all ranks; the result is that of rank 0. Throws GroupError.
absl::StatusOr<RankFigures> ForecastRanks(Group* group, const TrainingSession& session,
                                          ThreadPool* pool, const Clock& clock);

// What came true, from the traffic of the steps.
RankFigures MeasuredRanks(int n_ranks, const GroupTraffic& traffic, double n_trained,
                          double seconds);

// "forecast for 2 ranks: 0.52 M samples/s, 1.7 times one rank's 0.31; ..." in one line.
std::string ForecastText(const RankFigures& forecast);
// "2 ranks: 0.50 M samples/s (forecast 0.52), ..." in one line.
std::string ComparisonText(const RankFigures& measured, const RankFigures& forecast);
// The keys of event `ranks`.
void SetRankFigures(const RankFigures& figures, JsonObject* object);

}  // namespace nerf
