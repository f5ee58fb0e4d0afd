#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/queue/catalogs/model_catalog.h"
#include "server/queue/catalogs/scene_catalog.h"
#include "server/queue/resources/project_record.h"
#include "server/queue/state/job_queue.h"
#include "server/queue/state/queue_state.h"

namespace nerf {

// Deletes ended jobs, unused scenes and models that their project no longer keeps
// (ProjectRetention). Reads in slices, so that the queue's lock is never held for long. Not
// thread-safe. All arguments outlive it.
class ResourceRetention {
 public:
  // Called after a model was deleted.
  using OnModelDeleted = std::function<void(const ResourceKey&)>;
  ResourceRetention(QueueState* state, JobQueue* queue, SceneCatalog* scenes, ModelCatalog* models,
                    OnModelDeleted on_model_deleted = {});

  // Looks at everything once. Waits for the store; the next call retries what it refused.
  absl::Status Sweep();

 private:
  struct EndedJob {
    absl::Time end_age;
    uint64_t create_sequence = 0;
    ResourceKey key;
  };
  // The ended jobs by project, and the scenes that jobs name.
  void ReadJobs(std::map<std::string, std::vector<EndedJob>>* ended, std::set<ResourceKey>* used);
  ProjectRetention RetentionOf(const std::string& project);
  absl::Status DeleteJobs(const std::string& project, std::vector<EndedJob> ended);
  absl::Status DeleteScenes(const std::set<ResourceKey>& used);
  absl::Status DeleteModels();

  QueueState& state_;
  JobQueue& queue_;
  SceneCatalog& scenes_;
  ModelCatalog& models_;
  const OnModelDeleted on_model_deleted_;
  // When a sweep first saw a scene that no job names.
  std::map<ResourceKey, SteadyTime> unused_since_;
};

}  // namespace nerf
