#pragma once

#include <optional>
#include <span>
#include <stop_token>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "engine/views/measure/evaluation.h"

namespace nerf {

// What is known of an evaluation before its first view.
struct EvaluationForecast {
  absl::Duration expected;               // of rendering
  std::optional<double> occupied_share;  // SceneRenderer::OccupiedShare
};

// Errors: those of ForecastEvaluation.
absl::StatusOr<EvaluationForecast> ForecastOf(SceneRenderer* renderer, std::span<const View> views,
                                              const EvaluationOptions& options, const Clock& clock,
                                              std::stop_token stop);

}  // namespace nerf
