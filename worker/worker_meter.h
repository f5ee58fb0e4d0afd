#pragma once

#include <string>

#include "nerf/internal/engine.pb.h"
#include "nerf/v1/worker_service.pb.h"

namespace nerf {

// What a worker did since its last message to the server (WorkerMetrics).
class WorkerMeter {
 public:
  // Counts what the job has done since the last progress of it.
  void Count(const std::string& job, const internal::Progress& progress);
  // All that was counted since the last call. n_restarts: of engines, since the worker's start.
  v1::WorkerMetrics Take(int n_restarts);
  // The message with what was taken last is written.
  void OnWritten();
  // It may not have been received: its counts go out again with the next one.
  void OnLost();

 private:
  v1::WorkerMetrics metrics_, in_flight_;
  v1::WorkerMetrics figures_;  // the worker's figures of the last progress since then
  double step_seconds_sum_ = 0, in_flight_step_seconds_sum_ = 0;
  std::string job_;  // of the last progress
  v1::Progress last_;
  int counted_restarts_ = 0;
};

}  // namespace nerf
