#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/queue/jobs/job.h"
#include "server/queue/leases/worker_table.h"

namespace nerf {

// What a queued job waits for: a reason for programs and a message for people.
struct QueueWait {
  std::string_view reason;
  std::string message;
};

// No worker is connected that takes jobs.
inline constexpr std::string_view kWaitNoWorker = "NO_WORKER";
// Workers are connected, but none of them has the job's method.
inline constexpr std::string_view kWaitNoCapableWorker = "NO_CAPABLE_WORKER";
// All workers that have its method are training other jobs.
inline constexpr std::string_view kWaitWorkersBusy = "WORKERS_BUSY";
// All workers that are connected are unhealthy.
inline constexpr std::string_view kWaitWorkersUnhealthy = "WORKERS_UNHEALTHY";
// No worker had room for its files. It is tried again after a pause.
inline constexpr std::string_view kWaitNoRoom = "NO_ROOM";
// Other jobs train its parts.
inline constexpr std::string_view kWaitParts = "PARTS";
// A pose job is to make its scene (QueuePlace::poses).
inline constexpr std::string_view kWaitPoses = "POSES";
// Its project has as many jobs at work as it may, or has used its workers' time of the day
// (QueuePlace::quota).
inline constexpr std::string_view kWaitQuota = "QUOTA";

// Files that it needs are damaged or missing in the blob store (QueuePlace::lack).
inline constexpr std::string_view kWaitBlobs = "BLOBS_MISSING";

// Why `job` waits, given the workers as they are now. `aside` is the rest of its pause if no worker
// had room for it, otherwise zero. `count_ahead` returns the number of queued jobs that start
// before it (QueuePlace::n_ahead); it is called only when all workers are busy. nullopt if the
// job is not queued, or if a worker is free for it or has just taken it.
std::optional<QueueWait> ExplainWait(const Job& job, std::span<const WorkerRecord> workers,
                                     absl::Duration aside,
                                     const std::function<size_t()>& count_ahead);

}  // namespace nerf
