#include "engine/program/session/rank_forecast.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <vector>

#include "common/status_macros.h"
#include "engine/field/kernels/cuda/device.h"
#include "engine/program/session/training_methods.h"
#include "engine/train/batch/pixel_sampler.h"
#include "engine/train/schedule.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr int kFirstSteps = 24;  // until the number of rays has settled; not counted
// On devices, whose steps send as many bytes: with one update of the grid, as it is by default.
constexpr int kFirstDeviceSteps = 8, kSharedSteps = 16;
constexpr int kMostSteps = 256;  // a field that trained for so long tells much of later steps
// Time for them: more where the training is long, of which they may take this share.
constexpr double kLeastSeconds = 0.7, kMostSeconds = 3, kShareOfTraining = 0.05;
constexpr int kLinkRounds = 15;
constexpr size_t kLinkBlock = 1 << 20;
// Transfers of a step: what rank 0 says, lanes, lines of the table, and the step's time.
constexpr int kTransfersPerStep = 4;
// Shares of the budget at which the forecast is renewed, by at least so many steps.
constexpr double kRenewals[] = {0.1, 0.25};
constexpr uint32_t kRecentSteps = 64;

// Runs steps of a training that has not begun yet.
class StepRunner {
 public:
  // What is pointed to outlives it.
  StepRunner(const TrainingSession& session, TrainingStep* step, ThreadPool* pool)
      : step_(step),
        pool_(pool),
        sampler_(session.scene.train,
                 TrainingBackground(session.state.config.background, session.scene.has_alpha),
                 session.state.config.seed, session.scene.alpha_is_mask, session.pictures.get(),
                 step->Errors() == nullptr ? std::span<const uint32_t>(session.scene.shown_runs)
                                           : std::span<const uint32_t>()),
        next_(session.state.step) {
    const TrainState& state = session.state;
    batch_.fraction =
        FractionSpent(state.config.budget, state.step, state.n_trained, state.seconds);
  }

  void Run() {
    const int n_pixels = step_->NextPixels(batch_.fraction);
    if (step_->DrawsPixels()) {
      batch_.step = next_;
      batch_.n_pixels = n_pixels;
    } else {
      sampler_.FillRange(next_, n_pixels, step_->OwnPixels(n_pixels, batch_.fraction), pool_,
                         &batch_);
    }
    step_->Run(batch_);
    ++next_;
  }

 private:
  TrainingStep* const step_;
  ThreadPool* const pool_;
  const PixelSampler sampler_;
  PixelBatch batch_;
  uint32_t next_;
};

// Steps of this process alone, with a copy of the session's state, and their costs.
struct MeasuredSteps {
  std::unique_ptr<TrainingStep> step;
  RankCosts costs;
};

absl::StatusOr<MeasuredSteps> MeasureSteps(const TrainingSession& session, int n_ranks,
                                           double seconds, ThreadPool* pool, const Clock& clock) {
  const TrainState& state = session.state;
  MeasuredSteps measured;
  NERF_ASSIGN_OR_RETURN(measured.step, NewTrainingStep(state.config, state.geometry, session.scene,
                                                       session.device, pool));
  TrainingStep* const step = measured.step.get();
  NERF_RETURN_IF_ERROR(KeepSeenEmpty(session, pool, step).status());
  TensorFile copy;
  session.step->Save(&copy);
  NERF_RETURN_IF_ERROR(step->Load(copy));
  step->MeasureCosts();
  StepRunner runner(session, step, pool);
  const int n_first = session.device == "cpu" ? kFirstSteps : kFirstDeviceSteps;
  RankCosts before;
  SteadyTime end;
  for (int i = 0; i < kMostSteps; ++i) {
    if (i == n_first) {
      before = step->CostsOf(n_ranks);
      end = clock.Now() + absl::Seconds(seconds);
    }
    if (i > n_first && clock.Now() >= end) break;
    runner.Run();
  }
  measured.costs = step->CostsOf(n_ranks).Since(before);
  return measured;
}

// The same on a device, which may have no room for another step: then nothing is measured.
absl::StatusOr<RankCosts> MeasureAlone(const TrainingSession& session, int n_ranks, double seconds,
                                       ThreadPool* pool, const Clock& clock) {
  try {
    absl::StatusOr<MeasuredSteps> alone = MeasureSteps(session, n_ranks, seconds, pool, clock);
    if (alone.ok()) return alone->costs;
    if (session.device == "cpu" || !absl::IsResourceExhausted(alone.status()))
      return alone.status();
  } catch (const kernels::cuda::CudaOutOfMemory&) {
  }
  return RankCosts();
}

// Steps of all ranks together with their exchanges, by the session's own step. Its state is then as
// before.
struct SharedSteps {
  RankCosts costs;
  GroupTraffic traffic;
};

absl::StatusOr<SharedSteps> RunSharedSteps(Group* group, const TrainingSession& session,
                                           ThreadPool* pool) {
  TrainingStep* const step = session.step.get();
  step->Remember();
  step->MeasureCosts();
  StepRunner runner(session, step, pool);
  for (int i = 0; i < kFirstDeviceSteps; ++i) runner.Run();
  const RankCosts before = step->CostsOf(group->n_ranks());
  const GroupTraffic traffic = group->traffic();
  for (int i = 0; i < kSharedSteps; ++i) runner.Run();
  const SharedSteps shared{step->CostsOf(group->n_ranks()).Since(before),
                           group->traffic().Since(traffic)};
  step->NextPixels(0);  // which takes the last result, before Restore restores what it changes
  NERF_RETURN_IF_ERROR(step->Restore());
  return shared;
}

// The steps that a training has before it.
struct Rest {
  double n_steps = 0, n_trained = 0;
  double n_bytes = 0;  // received by rank 0
};

// From `from` on, where a sample takes so many seconds and bytes_of_step() tells what a step sends.
template <typename BytesOfStep>
Rest RestOf(const TrainConfig& config, const RankProgress& from, double seconds_per_sample,
            std::optional<uint32_t> stop_after, const BytesOfStep& bytes_of_step) {
  constexpr int kPieces = 256;  // of the budget, whose steps are taken as equal
  const double begin =
      FractionSpent(config.budget, from.step, static_cast<int64_t>(from.n_trained), from.seconds);
  const double amount = (1 - begin) / kPieces * config.budget.amount;
  Rest rest;
  for (int piece = 0; piece < kPieces; ++piece) {
    const double fraction = begin + (1 - begin) * (piece + 0.5) / kPieces;
    const double n_trained = TargetSamples(config, fraction);
    double n_steps = amount;
    if (config.budget.kind == BudgetKind::kSamples) n_steps = amount / n_trained;
    if (config.budget.kind == BudgetKind::kSeconds)
      n_steps = amount / std::max(1e-12, n_trained * seconds_per_sample);
    const double step = from.step + rest.n_steps;
    if (stop_after.has_value()) n_steps = std::clamp(*stop_after - step, 0.0, n_steps);
    rest.n_steps += n_steps;
    rest.n_trained += n_steps * n_trained;
    rest.n_bytes += n_steps * bytes_of_step({n_trained, step + 0.5 * n_steps, fraction});
  }
  return rest;
}

// Completes figures whose link is known. computing: seconds a sample without exchanges. Bytes are
// those that `measured` tells, or else bytes_per_sample.
void Predict(const TrainConfig& config, const RankProgress& from, const TrainingStep& measured,
             double computing, double bytes_per_sample, std::optional<uint32_t> stop_after,
             RankFigures* figures) {
  const Rest rest = RestOf(config, from, computing, stop_after, [&](const StepOutlook& step) {
    const double bytes = measured.BytesOfStep(step, figures->n_ranks);
    return bytes > 0 ? bytes : step.n_trained * bytes_per_sample;
  });
  if (rest.n_steps <= 0) return;
  figures->first_step = from.step;
  figures->n_steps = rest.n_steps;
  figures->bytes_per_step = rest.n_bytes / rest.n_steps;
  figures->bytes_per_sample = rest.n_bytes / rest.n_trained;
  const double exchange =
      figures->bytes_per_sample / figures->link_bytes_per_second +
      kTransfersPerStep * figures->link_latency_seconds * rest.n_steps / rest.n_trained;
  const double seconds = computing + exchange;  // a sample
  figures->samples_per_second = 1 / std::max(1e-12, seconds);
  figures->exchange_fraction = exchange / std::max(1e-12, seconds);
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
                                          ThreadPool* pool, const Clock& clock,
                                          std::optional<uint32_t> stop_after) {
  const int n_ranks = group->n_ranks();
  RankFigures figures;
  figures.n_ranks = n_ranks;
  figures.link_latency_seconds = SecondsOf(group, 8, clock);
  const double block_seconds =
      std::max(1e-9, SecondsOf(group, kLinkBlock, clock) - figures.link_latency_seconds);
  figures.link_bytes_per_second = (n_ranks - 1) * static_cast<double>(kLinkBlock) / block_seconds;

  const TrainState& state = session.state;
  const RankProgress from{state.step, static_cast<double>(state.n_trained), state.seconds, {}};
  double measuring = kLeastSeconds;
  // Others wait, so that rank 0 has the machine for itself.
  if (group->rank() == 0) {
    NERF_ASSIGN_OR_RETURN(const RankCosts alone,
                          MeasureAlone(session, n_ranks, measuring, pool, clock));
    if (alone.seconds > 0) {
      figures.alone_samples_per_second = static_cast<double>(alone.n_trained) / alone.seconds;
      const Rest rest = RestOf(state.config, from, 1 / figures.alone_samples_per_second, stop_after,
                               [](const StepOutlook&) { return 0; });
      measuring = std::clamp(kShareOfTraining * rest.n_trained / figures.alone_samples_per_second,
                             kLeastSeconds, kMostSeconds);
    }
  }
  BroadcastValue(group, 0, &figures);
  BroadcastValue(group, 0, &measuring);
  const auto predict = [&](const TrainingStep& step, const RankCosts& costs, double parts) {
    const double n_trained = std::max(1.0, static_cast<double>(costs.n_trained));
    const double computing = Largest(group, costs.seconds / n_trained) / parts;
    Predict(state.config, from, step, computing, costs.bytes_received / n_trained, stop_after,
            &figures);
  };
  if (session.device != "cpu") {
    NERF_ASSIGN_OR_RETURN(const SharedSteps shared, RunSharedSteps(group, session, pool));
    // What devices exchange goes other ways than the blocks of above.
    const double seconds =
        shared.traffic.seconds - kSharedSteps * kTransfersPerStep * figures.link_latency_seconds;
    figures.link_bytes_per_second = shared.costs.bytes_received / std::max(1e-9, seconds);
    predict(*session.step, shared.costs, 1);
    return figures;
  }
  NERF_ASSIGN_OR_RETURN(const MeasuredSteps measured,
                        MeasureSteps(session, n_ranks, measuring, pool, clock));
  predict(*measured.step, measured.costs, n_ranks);
  return figures;
}

RankOutlook::RankOutlook(const TrainConfig& config, const RankFigures& first,
                         const RankProgress& begin, TrainingStep* step,
                         std::optional<uint32_t> stop_after)
    : config_(config), step_(step), stop_after_(stop_after), before_(begin) {
  forecasts_.emplace_back(begin, first);
  step_->MeasureCosts();
}

std::optional<RankFigures> RankOutlook::AfterStep(const TrainState& state,
                                                  const GroupTraffic& traffic) {
  if (n_renewed_ == std::size(kRenewals)) return std::nullopt;
  const RankProgress now{state.step, static_cast<double>(state.n_trained), state.seconds, traffic};
  const RankProgress recent = now.Since(before_);
  const double fraction = FractionSpent(config_.budget, state.step, state.n_trained, state.seconds);
  const bool is_due = fraction >= kRenewals[n_renewed_] && recent.step >= kRecentSteps;
  if (recent.step >= 2 * kRecentSteps) before_ = now;
  if (!is_due || recent.n_trained <= 0) return std::nullopt;
  while (n_renewed_ < std::size(kRenewals) && fraction >= kRenewals[n_renewed_]) ++n_renewed_;
  RankFigures figures = forecasts_.front().second;  // its link and the rate of one rank
  const double computing =
      std::max(0.0, recent.seconds - recent.traffic.seconds) / recent.n_trained;
  figures.n_steps = 0;
  Predict(config_, now, *step_, computing, recent.traffic.bytes_received / recent.n_trained,
          stop_after_, &figures);
  if (figures.n_steps <= 0) return std::nullopt;
  forecasts_.emplace_back(now, figures);
  return figures;
}

std::vector<RankOutlook::Comparison> RankOutlook::Compare(const RankProgress& end) const {
  std::vector<Comparison> comparisons;
  for (const auto& [from, forecast] : forecasts_) {
    const RankProgress run = end.Since(from);
    RankFigures measured;
    measured.n_ranks = forecast.n_ranks;
    measured.first_step = from.step;
    measured.n_steps = run.step;
    if (run.n_trained > 0 && run.seconds > 0) {
      const auto n_bytes = static_cast<double>(run.traffic.bytes_received);
      measured.samples_per_second = run.n_trained / run.seconds;
      measured.bytes_per_sample = n_bytes / run.n_trained;
      measured.bytes_per_step = n_bytes / run.step;
      measured.exchange_fraction = run.traffic.seconds / run.seconds;
    }
    comparisons.push_back({measured, forecast});
  }
  return comparisons;
}

std::string ForecastText(const RankFigures& forecast) {
  const double alone = forecast.alone_samples_per_second;
  const std::string speedup =
      alone > 0 ? fmt::format(", {:.2f} times one rank's {:.2f}",
                              forecast.samples_per_second / alone, Millions(alone))
                : "";
  return fmt::format(
      "forecast for {} ranks from step {} on: {:.2f} M samples/s{}; "
      "rank 0 receives {:.2f} MB a step, {:.0f} bytes a sample, {:.0f}% of the time, over a link "
      "of {:.2f} GB/s and {:.0f} us",
      forecast.n_ranks, forecast.first_step, Millions(forecast.samples_per_second), speedup,
      Millions(forecast.bytes_per_step), forecast.bytes_per_sample,
      100 * forecast.exchange_fraction, forecast.link_bytes_per_second / 1e9,
      1e6 * forecast.link_latency_seconds);
}

std::string ComparisonText(const RankFigures& measured, const RankFigures& forecast) {
  return fmt::format(
      "{} ranks from step {} on: {:.2f} M samples/s (forecast {:.2f}), {:.2f} MB a step ({:.2f}), "
      "{:.0f} bytes a sample ({:.0f}), {:.0f}% of the time in exchanges ({:.0f}%)",
      measured.n_ranks, measured.first_step, Millions(measured.samples_per_second),
      Millions(forecast.samples_per_second), Millions(measured.bytes_per_step),
      Millions(forecast.bytes_per_step), measured.bytes_per_sample, forecast.bytes_per_sample,
      100 * measured.exchange_fraction, 100 * forecast.exchange_fraction);
}

void SetRankFigures(const RankFigures& figures, JsonObject* object) {
  (*object)["ranks"] = figures.n_ranks;
  (*object)["first_step"] = figures.first_step;
  (*object)["steps"] = JsonNumber(figures.n_steps);
  (*object)["samples_per_second"] = JsonNumber(figures.samples_per_second);
  if (figures.alone_samples_per_second > 0)
    (*object)["alone_samples_per_second"] = JsonNumber(figures.alone_samples_per_second);
  (*object)["bytes_per_sample"] = JsonNumber(figures.bytes_per_sample);
  (*object)["bytes_per_step"] = JsonNumber(figures.bytes_per_step);
  (*object)["exchange_fraction"] = JsonNumber(figures.exchange_fraction);
  if (figures.link_bytes_per_second > 0) {
    (*object)["link_bytes_per_second"] = JsonNumber(figures.link_bytes_per_second);
    (*object)["link_latency_seconds"] = JsonNumber(figures.link_latency_seconds);
  }
}

}  // namespace nerf
