#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "server/queue/leases/worker_table.h"
#include "server/queue/resources/blob_ref.h"
#include "server/queue/resources/project_record.h"
#include "server/queue/state/queue_state.h"

namespace nerf {

// What a project uses now.
struct ProjectUsage {
  uint64_t queued_jobs = 0;
  uint64_t running_jobs = 0;  // leases
  uint64_t stored_bytes = 0;
  double device_seconds = 0;  // of today
  uint64_t renders = 0;
};

struct ProjectView {
  ProjectRecord record;
  ProjectUsage usage;
};

// Counts a render as in progress while it exists.
class RenderTicket {
 public:
  struct Counts {
    Mutex mu;
    std::map<std::string, uint64_t> renders ABSL_GUARDED_BY(mu);  // by project
  };
  RenderTicket(std::shared_ptr<Counts> counts, std::string project)
      : counts_(std::move(counts)), project_(std::move(project)) {}
  ~RenderTicket();
  RenderTicket(const RenderTicket&) = delete;
  RenderTicket& operator=(const RenderTicket&) = delete;

 private:
  const std::shared_ptr<Counts> counts_;
  const std::string project_;
};

// The operators' side of the queue: settings and use of projects, drained workers. JobQueue is the
// clients' side, LeaseTable the workers'. A change that returns OK is durable. Thread-safe. State
// and workers outlive it.
class QueueAdmin {
 public:
  QueueAdmin(QueueState* state, WorkerTable* workers);

  ProjectView GetProject(const std::string& project);
  // Projects that have resources or settings, by name.
  std::vector<ProjectView> ListProjects();
  // Changes quota and retention of a project. Waits for the store. Errors: Unavailable
  // STORE_READ_ONLY.
  absl::StatusOr<ProjectView> UpdateProject(const std::string& project,
                                            const std::function<void(ProjectRecord&)>& change);

  // A drained worker gets nothing more, and its job is asked back by the next
  // JobUpkeep::Tick. Errors: NotFound RESOURCE_NOT_FOUND for one that is neither known nor drained;
  // Unavailable STORE_READ_ONLY.
  absl::StatusOr<WorkerRecord> SetDrained(const std::string& worker, bool drained);

  // The project begins or resumes an upload, whose key in the blob store this is; its whole size
  // counts from now on. ResourceExhausted QUOTA_EXCEEDED if the project may not upload it.
  absl::Status BeginUpload(const std::string& project, const std::string& upload,
                           uint64_t byte_size);
  // An upload was begun in an earlier process, which has received so many bytes.
  void NoteUnfinished(const std::string& project, const std::string& upload, uint64_t byte_size);
  // The upload is over, without a blob that the project did not have.
  void DropUpload(const std::string& project, const std::string& upload);
  // The upload is over: the blob is the project's, also after a restart. Waits for the store.
  // Errors: Unavailable STORE_READ_ONLY.
  absl::Status FinishUpload(const std::string& project, const std::string& upload,
                            const BlobRef& blob);
  // Counts what the resources of every project name. Holds the lock briefly at a time.
  void CountStoredBytes();

  // ResourceExhausted QUOTA_EXCEEDED if the project has as many renders in progress as it may.
  absl::StatusOr<std::shared_ptr<RenderTicket>> BeginRender(const std::string& project);

 private:
  ProjectView ViewOf(const std::string& project) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);

  QueueState& state_;
  WorkerTable& workers_;
  const std::shared_ptr<RenderTicket::Counts> renders_;
};

}  // namespace nerf
