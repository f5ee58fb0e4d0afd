#include "engine/tool/rank_forecast.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/status_macros.h"
#include "engine/tool/training_methods.h"
#include "engine/train/pixel_sampler.h"
#include "engine/train/schedule.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr int kFirstSteps = 24;  // until the number of rays has settled; not counted
constexpr int kMostSteps = 200;
constexpr double kSecondsOfSteps = 0.7;
constexpr int kLinkRounds = 15;
constexpr size_t kLinkBlock = 1 << 20;
// Transfers of a step: what rank 0 says, lanes, lines of the table, and the step's time.
constexpr int kTransfersPerStep = 4;

// Costs of some steps of this process alone, with a copy of the session's state.
absl::StatusOr<RankCosts> MeasureSteps(const TrainingSession& session, int n_ranks,
                                       ThreadPool* pool, const Clock& clock) {
  const TrainState& state = session.state;
  NERF_ASSIGN_OR_RETURN(const std::unique_ptr<TrainingStep> step,
                        NewTrainingStep(state.config, state.geometry, session.scene, "cpu", pool));
  TensorFile copy;
  session.step->Save(&copy);
  NERF_RETURN_IF_ERROR(step->Load(copy));
  step->MeasureCosts();
  const PixelSampler sampler(
      session.scene.train, TrainingBackground(state.config.background, session.scene.has_alpha),
      state.config.seed, session.scene.alpha_is_mask, session.pictures.get());
  PixelBatch batch;
  batch.fraction = FractionSpent(state.config.budget, state.step, state.n_trained, state.seconds);
  RankCosts before;
  SteadyTime end;
  for (int i = 0; i < kMostSteps; ++i) {
    if (i == kFirstSteps) {
      before = step->CostsOf(n_ranks);
      end = clock.Now() + absl::Seconds(kSecondsOfSteps);
    }
    if (i > kFirstSteps && clock.Now() >= end) break;
    sampler.Fill(state.step + i, step->NextPixels(batch.fraction), pool, &batch);
    step->Run(batch);
  }
  return step->CostsOf(n_ranks).Since(before);
}

// The time to send a block to all ranks and to read theirs; with shared memory reading is the
// larger part.
double SecondsOf(Group* group, size_t n_bytes, const Clock& clock) {
  const std::vector<std::byte> mine(n_bytes, std::byte{1});
  std::vector<std::byte> read(n_bytes);
  std::vector<ByteBlock> from;
  std::vector<double> seconds;
  for (int i = 0; i < kLinkRounds; ++i) {
    const SteadyTime begin = clock.Now();
    AllGather(group, mine, &from);
    for (const ByteBlock& block : from)
      std::copy_n(block.bytes().begin(), std::min(n_bytes, block.bytes().size()), read.begin());
    seconds.push_back(absl::ToDoubleSeconds(clock.Now() - begin));
    if (read != mine) throw GroupError("the link does not bring what was sent");
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

// The largest of the ranks' values.
double Largest(Group* group, double value) {
  std::vector<ByteBlock> from;
  AllGather(group, std::as_bytes(std::span(&value, 1)), &from);
  for (int rank = 0; rank < group->n_ranks(); ++rank) {
    if (rank == group->rank()) continue;
    double other = 0;
    if (from[rank].bytes().size() == sizeof(other))
      std::memcpy(&other, from[rank].bytes().data(), sizeof(other));
    value = std::max(value, other);
  }
  return value;
}

double Millions(double n) { return n / 1e6; }

}  // namespace

absl::StatusOr<RankFigures> ForecastRanks(Group* group, const TrainingSession& session,
                                          ThreadPool* pool, const Clock& clock) {
  const int n_ranks = group->n_ranks();
  RankFigures figures;
  figures.n_ranks = n_ranks;
  figures.link_latency_seconds = SecondsOf(group, 8, clock);
  const double block_seconds =
      std::max(1e-9, SecondsOf(group, kLinkBlock, clock) - figures.link_latency_seconds);
  figures.link_bytes_per_second = (n_ranks - 1) * static_cast<double>(kLinkBlock) / block_seconds;

  // Others wait, so that rank 0 has the machine for itself.
  if (group->rank() == 0) {
    NERF_ASSIGN_OR_RETURN(const RankCosts alone, MeasureSteps(session, n_ranks, pool, clock));
    if (alone.seconds > 0) figures.alone_samples_per_second = alone.n_trained / alone.seconds;
  }
  BroadcastValue(group, 0, &figures);
  NERF_ASSIGN_OR_RETURN(const RankCosts costs, MeasureSteps(session, n_ranks, pool, clock));
  const double n_trained = std::max(1.0, static_cast<double>(costs.n_trained));
  const double computing = Largest(group, costs.seconds / n_trained) / n_ranks;
  figures.bytes_per_sample = costs.bytes_received / n_trained;
  const double exchange =
      figures.bytes_per_sample / figures.link_bytes_per_second +
      kTransfersPerStep * figures.link_latency_seconds * costs.n_steps / n_trained;
  const double seconds = computing + exchange;  // a sample
  figures.samples_per_second = 1 / std::max(1e-12, seconds);
  figures.exchange_fraction = exchange / std::max(1e-12, seconds);
  return figures;
}

RankFigures MeasuredRanks(int n_ranks, const GroupTraffic& traffic, double n_trained,
                          double seconds) {
  RankFigures figures;
  figures.n_ranks = n_ranks;
  if (n_trained <= 0 || seconds <= 0) return figures;
  figures.samples_per_second = n_trained / seconds;
  figures.bytes_per_sample = static_cast<double>(traffic.bytes_received) / n_trained;
  figures.exchange_fraction = traffic.seconds / seconds;
  return figures;
}

std::string ForecastText(const RankFigures& forecast) {
  return fmt::format(
      "forecast for {} ranks: {:.2f} M samples/s, {:.2f} times one rank's {:.2f}; each receives "
      "{:.0f} bytes a sample, {:.0f}% of the time, over a link of {:.2f} GB/s and {:.0f} us",
      forecast.n_ranks, Millions(forecast.samples_per_second),
      forecast.samples_per_second / std::max(1e-9, forecast.alone_samples_per_second),
      Millions(forecast.alone_samples_per_second), forecast.bytes_per_sample,
      100 * forecast.exchange_fraction, forecast.link_bytes_per_second / 1e9,
      1e6 * forecast.link_latency_seconds);
}

std::string ComparisonText(const RankFigures& measured, const RankFigures& forecast) {
  return fmt::format(
      "{} ranks: {:.2f} M samples/s (forecast {:.2f}), {:.0f} bytes a sample ({:.0f}), {:.0f}% of "
      "the time in exchanges ({:.0f}%)",
      measured.n_ranks, Millions(measured.samples_per_second),
      Millions(forecast.samples_per_second), measured.bytes_per_sample, forecast.bytes_per_sample,
      100 * measured.exchange_fraction, 100 * forecast.exchange_fraction);
}

void SetRankFigures(const RankFigures& figures, JsonObject* object) {
  (*object)["ranks"] = figures.n_ranks;
  (*object)["samples_per_second"] = JsonNumber(figures.samples_per_second);
  if (figures.alone_samples_per_second > 0)
    (*object)["alone_samples_per_second"] = JsonNumber(figures.alone_samples_per_second);
  (*object)["bytes_per_sample"] = JsonNumber(figures.bytes_per_sample);
  (*object)["exchange_fraction"] = JsonNumber(figures.exchange_fraction);
  if (figures.link_bytes_per_second > 0) {
    (*object)["link_bytes_per_second"] = JsonNumber(figures.link_bytes_per_second);
    (*object)["link_latency_seconds"] = JsonNumber(figures.link_latency_seconds);
  }
}

}  // namespace nerf
