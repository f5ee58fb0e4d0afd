#pragma once

#include <algorithm>
#include <span>

#include "absl/status/statusor.h"
#include "engine/field/files/tensor_file.h"
#include "engine/scene/scene.h"

namespace nerf {

// The times of a training's pictures, from the first to the last. What the warp does at other times
// was never trained, so they show the nearest of these.
struct TimeRange {
  float first = 0, last = 1;

  float Clamp(float time) const { return std::clamp(time, first, last); }
  bool operator==(const TimeRange&) const = default;
};

// That of the views; 0 to 1 where there are none.
TimeRange TimesOf(std::span<const View> views);

// Tensor "field.times" [2], F32. Files without it have the range 0 to 1. Errors: InvalidArgument
// naming the tensor.
void SaveTimeRange(const TimeRange& times, TensorFile* file);
absl::StatusOr<TimeRange> ReadTimeRange(const TensorFile& file);

}  // namespace nerf
