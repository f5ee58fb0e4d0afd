#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/queue/job.h"
#include "server/queue/worker_table.h"

namespace nerf {

// What a queued job waits for: a word for programs and a sentence's worth for people.
struct QueueWait {
  std::string_view reason;
  std::string message;
};

// No worker is connected that takes jobs.
inline constexpr std::string_view kWaitNoWorker = "NO_WORKER";
// Some are, and none of them has the job's method.
inline constexpr std::string_view kWaitNoCapableWorker = "NO_CAPABLE_WORKER";
// All that could take it train other jobs.
inline constexpr std::string_view kWaitWorkersBusy = "WORKERS_BUSY";

// Why `job` is not placed, with `workers` as they are now. `count_ahead` tells how many jobs of its
// method were queued before it and wait, too; it is asked only where all workers are busy. nullopt
// where it is not queued, and where a worker is free for it or has just taken it: that is a matter
// of moments.
std::optional<QueueWait> ExplainWait(const Job& job, std::span<const WorkerRecord> workers,
                                     const std::function<size_t()>& count_ahead);

}  // namespace nerf
