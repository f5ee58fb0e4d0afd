#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/queue/training_curve.h"

namespace nerf {

// The points of a curve as one byte string: for each the step, the six figures in the order of
// CurvePoint, as little-endian doubles; NaN where no preview was made.
std::string EncodeCurve(const TrainingCurve& curve);
// DataLoss STORE_CORRUPT for bytes that EncodeCurve has not made. An empty text has no points.
absl::StatusOr<TrainingCurve> DecodeCurve(std::string_view bytes);

}  // namespace nerf
