#pragma once

#include <optional>

#include "server/queue/state/job_store.h"

namespace nerf {

// Another store, for tests that change a part of its behavior.
class ForwardingJobStore : public JobStore {
 public:
  explicit ForwardingJobStore(JobStore* store) : store_(*store) {}

  absl::StatusOr<StoredState> Load() override { return store_.Load(); }
  absl::StatusOr<std::optional<Job>> LoadJob(const ResourceKey& job) override {
    return store_.LoadJob(job);
  }
  absl::StatusOr<TrainingCurve> LoadCurve(const ResourceKey& job) override {
    return store_.LoadCurve(job);
  }
  absl::Status Commit(const StoreWrite& write) override { return store_.Commit(write); }

 private:
  JobStore& store_;
};

}  // namespace nerf
