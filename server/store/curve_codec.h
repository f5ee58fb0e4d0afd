#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/queue/jobs/training_curve.h"

namespace nerf {

// A curve as one byte string. Its points: for each the step, the six figures in the order of
// CurvePoint, as little-endian doubles; NaN where no preview was made. Scores of test views
// come before the points, after a magic and the size of what they take.
std::string EncodeCurve(const TrainingCurve& curve);
// DataLoss STORE_CORRUPT for bytes that EncodeCurve has not made. An empty text has no points.
absl::StatusOr<TrainingCurve> DecodeCurve(std::string_view bytes);

}  // namespace nerf
