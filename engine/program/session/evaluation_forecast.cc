#include "engine/program/session/evaluation_forecast.h"

#include <utility>

#include "common/status_macros.h"

namespace nerf {

absl::StatusOr<EvaluationForecast> ForecastOf(SceneRenderer* renderer, std::span<const View> views,
                                              const EvaluationOptions& options, const Clock& clock,
                                              std::stop_token stop) {
  EvaluationForecast forecast;
  NERF_ASSIGN_OR_RETURN(forecast.expected,
                        ForecastEvaluation(renderer, views, options, clock, std::move(stop)));
  forecast.occupied_share = renderer->OccupiedShare();
  return forecast;
}

}  // namespace nerf
