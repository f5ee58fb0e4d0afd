#pragma once

#include <optional>
#include <vector>

#include "server/queue/jobs/job.h"
#include "server/queue/jobs/training_curve.h"

namespace nerf {

// The end of a placement, as its holder reports it.
struct JobOutcome {
  enum class Kind { kSucceeded, kFailed, kCancelled, kPaused };
  Kind kind = Kind::kSucceeded;
  std::optional<v1::Progress> progress;  // the last one
  std::optional<double> final_psnr;      // dB; with kSucceeded, where there are test views
  JobError error;                        // with kFailed
  std::vector<v1::TestViewScore> test_views = {};  // with kSucceeded; at most kMaxTestViewScores
  std::optional<v1::ExportResult> exported = {};   // with kSucceeded of an export job
};

}  // namespace nerf
