#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/clock.h"
#include "engine/base/protocol/json.h"

namespace nerf {

// The curve of a training in its folder: metrics.jsonl has a line for each report, preview and end,
// which are those of `train --json` with the `time` of writing (seconds since 1970). For
// TensorBoard the same numbers under the tags EVENT/KEY, "progress/loss". Begins with the first
// line. Not thread-safe.
class TrainingRecord {
 public:
  // from_step: where a training goes on: lines of later steps are dropped. 0: it begins, the record
  // of an earlier one is replaced. clock outlives the record.
  TrainingRecord(const std::string& folder, uint32_t from_step, bool tensorboard,
                 const Clock* clock);

  // A line with `event` and `step`. Errors: those of writing, the first alone.
  absl::Status Add(JsonObject line);

 private:
  absl::Status Begin();

  const std::string path_;
  std::string event_path_;  // empty: none
  const uint32_t from_step_;
  const Clock* const clock_;
  bool has_begun_ = false, has_failed_ = false;
};

}  // namespace nerf
