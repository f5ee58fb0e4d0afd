#include "engine/tool/evaluation_forecast.h"

#include <utility>

#include "common/status_macros.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr absl::Duration kLong = absl::Seconds(5);
// Share of the grid from which on the occupied space is named as the reason; mic after 50 steps had
// 0.36.
constexpr double kMostlyOccupied = 0.3;

}  // namespace

absl::StatusOr<EvaluationForecast> ForecastOf(SceneRenderer* renderer, std::span<const View> views,
                                              const EvaluationOptions& options, const Clock& clock,
                                              std::stop_token stop) {
  EvaluationForecast forecast;
  NERF_ASSIGN_OR_RETURN(forecast.expected,
                        ForecastEvaluation(renderer, views, options, clock, std::move(stop)));
  forecast.occupied_share = renderer->OccupiedShare();
  return forecast;
}

std::string SlownessText(const EvaluationForecast& forecast) {
  if (forecast.expected < kLong || forecast.occupied_share.value_or(0) < kMostlyOccupied) return "";
  return fmt::format(
      "views are slow because the model is barely trained: {:.0f}% of its space still counts as "
      "occupied, so rays skip little of it",
      100 * *forecast.occupied_share);
}

}  // namespace nerf
