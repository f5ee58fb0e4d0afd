#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/mutex.h"
#include "server/metrics/view_metrics.h"
#include "server/queue/leases/worker_table.h"

namespace nerf {

class LiveView;

// The open live views of a server: by name, and which worker renders each. Thread-safe. What is
// pointed to outlives it.
class LiveViews {
 public:
  static constexpr size_t kMaxPerProject = 16;
  static constexpr size_t kMaxPerWorker = 4;

  LiveViews(const WorkerTable* workers, ViewMetrics* metrics, RandomSource* random)
      : workers_(*workers), metrics_(*metrics), random_(*random) {}

  // Returns the name of the view, {source}/views/{random id}: whoever may view `source`, which is
  // of `project`, may move it. Errors: ResourceExhausted QUEUE_FULL.
  absl::StatusOr<std::string> Add(const std::string& project, const std::string& source,
                                  std::weak_ptr<LiveView> view);
  void Remove(const std::string& name);
  // nullptr if there is none.
  std::shared_ptr<LiveView> Find(const std::string& name);

  // The worker that renders the next frame of a view: `wanted` if it is set; else the one of the
  // frame before, as long as it is there; else one that shows the same weights already, or the one
  // with the least to do. `weights` names what is rendered; the worker has `feature` (WorkerHello)
  // unless it is empty. Errors: Unavailable NO_WORKER; ResourceExhausted QUEUE_FULL.
  absl::StatusOr<std::string> Assign(const std::string& name,
                                     const std::optional<std::string>& wanted,
                                     const std::string& weights, std::string_view feature = "");
  // The next Assign chooses anew.
  void Unassign(const std::string& name);

  ViewMetrics& metrics() { return metrics_; }

 private:
  struct Entry {
    std::string project;
    std::weak_ptr<LiveView> view;
    std::string worker;  // empty: none yet
    std::string weights;
  };
  struct Load {
    size_t n_views = 0;
    bool is_warm = false;  // for the weights in question
  };
  Load LoadOf(const std::string& worker, const std::string& except, const std::string& weights)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const WorkerTable& workers_;
  ViewMetrics& metrics_;
  RandomSource& random_;
  Mutex mu_;
  std::map<std::string, Entry> views_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nerf
