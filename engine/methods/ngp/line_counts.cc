#include "engine/methods/ngp/line_counts.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "engine/base/check.h"

namespace nerf {
namespace {

constexpr double kMeanSteps = 64;  // that a mean is taken over
// The grid is probed densely for so many steps, and empties; what follows is steady.
constexpr double kSteadyStep = 256;
// Bounds of the change per e-fold of the steps, and what is taken where it cannot be told, after
// the first steps, in which counts rise or fall with the scene. Seen on lego_200, fox_quarter and
// drone_5 from step 260 to 1300: -0.034, -0.032 and -0.076.
constexpr double kLeastTrend = -0.15, kMostTrend = 0.05, kUsualTrend = -0.05;
constexpr double kFirstSteps = 96;
constexpr double kSameBatch = 0.1;  // relative: batches that differ less can be compared

double CountBits(std::span<const uint64_t> words) {
  int64_t n = 0;
  for (const uint64_t word : words) n += std::popcount(word);
  return static_cast<double>(n);
}

}  // namespace

NgpLineCounts::NgpLineCounts(int n_levels, size_t n_lines)
    : words_per_level_(n_lines / 64),
      changed_(n_levels * words_per_level_),
      step_(n_levels),
      last_(n_levels) {
  NERF_CHECK(n_lines % 64 == 0);
}

void NgpLineCounts::Add(int level, std::span<const uint64_t> bits) {
  NERF_CHECK(bits.size() == words_per_level_);
  uint64_t* const changed = changed_.data() + level * words_per_level_;
  for (size_t i = 0; i < bits.size(); ++i) changed[i] |= bits[i];
  step_[level] = CountBits(bits);
}

void NgpLineCounts::EndStep(uint32_t step, int64_t n_trained, int64_t n_marched) {
  last_ = step_;
  std::fill(step_.begin(), step_.end(), 0.0);
  ++n_steps_;
  current_.n_trained += static_cast<double>(n_trained);
  current_.n_marched += static_cast<double>(n_marched);
  if (std::has_single_bit(static_cast<unsigned>(n_steps_))) {
    const int i = std::countr_zero(static_cast<unsigned>(n_steps_));
    current_.samples[i] = current_.n_trained;
    for (size_t level = 0; level < last_.size(); ++level) {
      current_.lines[i].push_back(
          CountBits(std::span(changed_).subspan(level * words_per_level_, words_per_level_)));
    }
  }
  if (n_steps_ < kBlockSteps) return;
  current_.step = step + 1 - 0.5 * kBlockSteps;
  blocks_.push_back(std::exchange(current_, {}));
  n_steps_ = 0;
  std::fill(changed_.begin(), changed_.end(), uint64_t{0});
}

NgpLineCounts::Block NgpLineCounts::MeanAround(double step) const {
  Block mean;
  for (std::vector<double>& lines : mean.lines) lines.resize(last_.size());
  int n = 0;
  for (const Block& block : blocks_) {
    if (std::abs(block.step - step) > 0.5 * kMeanSteps) continue;
    ++n;
    mean.step += block.step;
    mean.n_trained += block.n_trained;
    mean.n_marched += block.n_marched;
    for (int i = 0; i < kUnions; ++i) {
      mean.samples[i] += block.samples[i];
      for (size_t level = 0; level < last_.size(); ++level)
        mean.lines[i][level] += block.lines[i][level];
    }
  }
  if (n == 0) return mean;
  mean.step /= n;
  for (int i = 0; i < kUnions; ++i) {
    mean.samples[i] /= n;
    for (double& lines : mean.lines[i]) lines /= n;
  }
  return mean;
}

NgpLineCounts::Block NgpLineCounts::Recent() const {
  return MeanAround(blocks_.back().step - 0.5 * (kMeanSteps - kBlockSteps));
}

// Relative change of the lines that a step changes per e-fold of the steps; nullopt where it cannot
// be told.
std::optional<double> NgpLineCounts::Trend(const Block& now, int level) const {
  const Block before = MeanAround(now.step / 2);
  const bool comparable = before.step >= kSteadyStep && before.samples[0] > 0 &&
                          std::abs(now.samples[0] / before.samples[0] - 1) < kSameBatch;
  if (!comparable) return std::nullopt;
  const double rate = now.lines[0][level] / now.samples[0];
  const double rate_before = before.lines[0][level] / before.samples[0];
  return std::clamp((rate - rate_before) / rate / std::log(now.step / before.step), kLeastTrend,
                    kMostTrend);
}

double NgpLineCounts::LinesOf(int level, double n_trained, double step) const {
  if (!HasCounts() || n_trained <= 0) return 0;
  const Block now = Recent();
  if (now.samples[0] <= 0 || now.lines[0][level] <= 0) return 0;
  // Between two unions, and beyond the last one, by a power of the samples.
  int i = 0;
  while (i + 2 < kUnions && n_trained > now.samples[i + 1]) ++i;
  double power = 1;
  if (now.samples[i + 1] > now.samples[i]) {
    power = std::log(now.lines[i + 1][level] / now.lines[i][level]) /
            std::log(now.samples[i + 1] / now.samples[i]);
  }
  const double lines = now.lines[i][level] * std::pow(n_trained / now.samples[i], power);
  const std::optional<double> trend = Trend(now, level);
  const double from = trend.has_value() ? now.step : std::max(kFirstSteps, now.step);
  const double growth = std::log(std::max(1.0, step / from));
  return lines * std::max(0.5, 1 + trend.value_or(kUsualTrend) * growth);
}

double NgpLineCounts::MarchedPerTrained() const {
  if (!HasCounts()) return 1;
  const Block now = Recent();
  return now.n_trained > 0 ? now.n_marched / now.n_trained : 1;
}

}  // namespace nerf
