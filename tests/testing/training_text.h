#pragma once

#include <fmt/format.h>

#include <string>

#include "common/messages/deterministic_bytes.h"
#include "server/queue/jobs/job.h"

namespace nerf {

// All of a training, to compare two.
inline std::string TextOf(const TrainingSpec& training) {
  std::string init = "none";
  if (training.init.has_value()) {
    const InitReference& from = *training.init;
    init =
        fmt::format("{} {}/{} {} {} {} {}", static_cast<int>(from.kind), from.source.project,
                    from.source.id, from.step, from.scope, from.blob.sha256, from.blob.byte_size);
  }
  return fmt::format("scene {} poses {} workers {}-{} on {} reason {} extends {} init {}\n{}\n{}",
                     training.scene, training.pose_job, training.workers.min, training.workers.max,
                     static_cast<int>(training.gang_device), training.init_reason,
                     training.extend_capability, init, DeterministicBytes(training.config),
                     DeterministicBytes(training.requested_config));
}

}  // namespace nerf
