#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "engine/base/parallel_for.h"
#include "engine/base/protocol/json.h"
#include "engine/program/session/training_session.h"
#include "engine/train/group/group.h"

namespace nerf {

// What the steps from one on until the end of a training by several ranks are expected to bring, or
// have brought.
struct RankFigures {
  int n_ranks = 1;
  uint32_t first_step = 0;
  double n_steps = 0;
  double samples_per_second = 0;
  double alone_samples_per_second = 0;  // of rank 0 alone; 0: not measured
  double bytes_per_sample = 0;          // received by rank 0, a trained sample of all ranks
  double bytes_per_step = 0;            // received by rank 0
  double exchange_fraction = 0;         // of the time, in transfers
  double link_bytes_per_second = 0;     // measured; 0: not measured
  double link_latency_seconds = 0;
};

// Measures the link between the ranks, some steps of rank 0 alone, and some of all ranks at once,
// each with a copy of the session's state, and computes what they will do together, until step
// `stop_after` if that is set. Takes two seconds, or up to five where the training is long. On CUDA
// devices the ranks train the steps together, with their exchanges, by session.step, which then has
// its state of before. Called by all ranks; the result is that of rank 0. Throws GroupError.
absl::StatusOr<RankFigures> ForecastRanks(Group* group, const TrainingSession& session,
                                          ThreadPool* pool, const Clock& clock,
                                          std::optional<uint32_t> stop_after = std::nullopt);

// Where a training by ranks is, between two steps.
struct RankProgress {
  uint32_t step = 0;
  double n_trained = 0;
  double seconds = 0;
  GroupTraffic traffic;  // of the steps

  RankProgress Since(const RankProgress& before) const {
    return {step - before.step, n_trained - before.n_trained, seconds - before.seconds,
            traffic.Since(before.traffic)};
  }
};

// Follows a training on rank 0. The first forecast knows the messages of a field that is new. Their
// size falls while the grid empties and grows with the batch, so the forecast is renewed when a
// tenth and when a quarter of the budget is spent, for the steps from there on, by those before.
class RankOutlook {
 public:
  // first: that of ForecastRanks. step: the one that trains, which begins to measure its costs; it
  // outlives the outlook.
  RankOutlook(const TrainConfig& config, const RankFigures& first, const RankProgress& begin,
              TrainingStep* step, std::optional<uint32_t> stop_after);

  // After each step. The forecast, when it is renewed.
  std::optional<RankFigures> AfterStep(const TrainState& state, const GroupTraffic& traffic);

  // Each forecast, and what came true of it by `end`.
  struct Comparison {
    RankFigures measured, forecast;
  };
  std::vector<Comparison> Compare(const RankProgress& end) const;

 private:
  const TrainConfig config_;
  TrainingStep* const step_;
  const std::optional<uint32_t> stop_after_;
  size_t n_renewed_ = 0;
  RankProgress before_;  // a few steps ago
  std::vector<std::pair<RankProgress, RankFigures>> forecasts_;
};

// "forecast for 2 ranks: 0.52 M samples/s, 1.7 times one rank's 0.31; ..." in one line.
std::string ForecastText(const RankFigures& forecast);
// "2 ranks: 0.50 M samples/s (forecast 0.52), ..." in one line.
std::string ComparisonText(const RankFigures& measured, const RankFigures& forecast);
// The keys of event `ranks`.
void SetRankFigures(const RankFigures& figures, JsonObject* object);

}  // namespace nerf
