#include "engine/methods/dynamic/time_range.h"

#include <vector>

#include "common/status_macros.h"
#include "engine/field/parameters/dense_parameters.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr const char* kName = "field.times";

}  // namespace

TimeRange TimesOf(std::span<const View> views) {
  if (views.empty()) return {};
  TimeRange times{views[0].camera.time, views[0].camera.time};
  for (const View& view : views) {
    times.first = std::min(times.first, view.camera.time);
    times.last = std::max(times.last, view.camera.time);
  }
  return times;
}

void SaveTimeRange(const TimeRange& times, TensorFile* file) {
  const float values[] = {times.first, times.last};
  file->tensors[kName] = TensorFromFloats(values, {2}, DType::kF32);
}

absl::StatusOr<TimeRange> ReadTimeRange(const TensorFile& file) {
  if (!file.tensors.contains(kName)) return TimeRange();
  NERF_ASSIGN_OR_RETURN(const std::vector<float> held, ReadFloats(file, kName, {2}));
  if (!(held[0] >= 0 && held[0] <= held[1] && held[1] <= 1)) {
    return absl::InvalidArgumentError(fmt::format(
        "tensor {}: {} to {} is no range of times from 0 to 1", kName, held[0], held[1]));
  }
  return TimeRange{held[0], held[1]};
}

}  // namespace nerf
