#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/messages/shared_message.h"
#include "nerf/internal/store.pb.h"
#include "nerf/v1/export_job.pb.h"
#include "nerf/v1/pose_job.pb.h"
#include "nerf/v1/render_job.pb.h"
#include "nerf/v1/training_job.pb.h"
#include "nerf/v1/worker_service.pb.h"
#include "server/queue/jobs/job_kind.h"
#include "server/queue/jobs/job_labels.h"
#include "server/queue/jobs/job_state.h"
#include "server/queue/jobs/model_source.h"
#include "server/queue/jobs/pose_spec.h"
#include "server/queue/jobs/rendered_frames.h"
#include "server/queue/resources/blob_ref.h"
#include "server/queue/resources/resource_key.h"

namespace nerf {

// The source of a job's initial weights, if it does not start from scratch.
struct InitReference {
  // Only in a JobSpec, in whose place Create puts a model or nothing: kAuto, the best fitting model
  // of the project, and kNone.
  enum class Kind { kModel, kCheckpoint, kAuto, kNone };
  Kind kind = Kind::kModel;
  ResourceKey source;  // the model, or the checkpoint's job
  uint32_t step = 0;   // of the checkpoint; unused for a model
  std::string scope = "all";
  BlobRef blob;  // the named model file; set by Create, kept until the job is final

  // Whether the client names the source, not the server.
  bool IsNamed() const { return kind == Kind::kModel || kind == Kind::kCheckpoint; }
  bool operator==(const InitReference&) const = default;
};

// One tensor of a model file.
struct TensorRecord {
  std::string name;
  std::string dtype;  // F32, F16, BF16, I32 or U8
  std::vector<uint32_t> shape;

  bool operator==(const TensorRecord&) const = default;
};

uint64_t BytesOf(const std::vector<TensorRecord>& tensors);  // memory of the list

// A committed state that training can continue from. Only `promoted` changes later.
struct CheckpointRecord {
  uint32_t step = 0;  // steps finished; grows from checkpoint to checkpoint of a job
  BlobRef checkpoint_blob;
  BlobRef model_blob;
  std::optional<double> preview_psnr;  // dB, always the same view; unset without test views
  double seconds = 0;                  // training time up to it, over all attempts
  std::vector<TensorRecord> tensors;   // of the model file
  absl::Time create_time;
  bool promoted = false;  // a model was made of it: never retired

  bool operator==(const CheckpointRecord&) const = default;
};

// Why a job failed: a canonical code, a reason for programs and a message for people.
struct JobError {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string reason;
  std::string message;
  std::map<std::string, std::string> metadata;
  std::vector<v1::SceneProblem> problems;  // of its scene
};

inline constexpr uint32_t kMaxGangSize = 32;

// How many workers train a job together: as many as are free, once `min` are.
struct WorkerCount {
  uint32_t min = 1, max = 1;

  bool operator==(const WorkerCount&) const = default;
};

// What the workers of a gang train on, all of them alike.
enum class GangDevice { kCpu, kCuda };

// The work of a training job.
struct TrainingSpec {
  std::string scene;  // id, in the same project
  // Id of the pose job, in the same project, that makes the scene; or empty. Create takes the scene
  // from it.
  std::string pose_job;
  // With every default filled in, without `init`. engine/base/config defines and checks what it
  // means.
  v1::TrainingConfig config;
  v1::TrainingConfig requested_config;  // what the client sent
  std::optional<InitReference> init;
  WorkerCount workers;
  GangDevice gang_device = GangDevice::kCpu;  // of no meaning where workers.max is 1
  std::string init_reason;  // why it starts from `init`; empty where the request named that
  // That workers need, where its budget may be another than that of the checkpoint it goes on from.
  std::string extend_capability;
};

// The right to work on a job, held now if HoldsLease(job.state). The lease of a QUEUED job that
// still names members has expired: they may take it up again, with the same epoch, until the job is
// granted to others. In a final state it names the last holders.
struct JobLease {
  // Workers; of a gang in the order of their ranks. Empty: nobody, or handed back.
  std::vector<std::string> members;
  uint64_t epoch = 0;  // fencing number; grows by one with every grant

  bool Has(std::string_view worker) const;
  // The first member; empty without one.
  std::string_view holder() const;
  bool IsGang() const { return members.size() > 1; }
  bool operator==(const JobLease&) const = default;
};

// Why its workers are to commit a checkpoint and hand a job back that is not to be paused.
enum class StopCause { kNone, kPreempted, kDrained, kQuota, kDeadline, kResumed };

// A job with everything that is stored about it. The store keeps copies, and readers get copies.
struct Job {
  ResourceKey key;
  JobKind kind = kDefaultJobKind;
  uint64_t create_sequence = 0;  // order of submission in this store, from 1
  std::string display_name;
  int priority = 0;  // of the queued jobs of a project those with the highest start first
  JobLabels labels;
  std::string retry_of;      // id of the job of which this one is a retry; otherwise empty
  std::string extension_of;  // id of the job that this one extends (Extension); otherwise empty
  // Of a training that is shared out among jobs: their ids, and the models that a worker merges
  // once all of them have succeeded, in the same order.
  std::vector<std::string> parts;
  std::vector<BlobRef> part_models;  // kept until the job is final
  double part_seconds = 0;           // training time of the parts, with part_models
  std::string merge_capability;      // that workers need for it and for the parts
  std::string part_of;               // id of the job of which this one trains a part; or empty
  // Its pose job has not made its scene yet. Stays set if that fails.
  bool awaits_poses = false;
  TrainingSpec training;                          // of kind kTraining
  internal::JobModel model;                       // of kinds kRender and kExport
  SharedMessage<v1::RenderSpec> render;           // of kind kRender, with defaults filled in
  RenderWork render_work;                         // of kind kRender
  PoseSpec pose;                                  // of kind kPose
  std::optional<v1::PoseReport> pose_report;      // once its worker has committed it
  SharedMessage<v1::ExportSpec> exporting;        // of kind kExport, with defaults filled in
  double expected_bytes = 0;                      // of its file, by the model; 0: not known
  std::optional<v1::ExportResult> export_result;  // of kind kExport; set in SUCCEEDED
  std::string request_id;                         // the client's; empty without one
  v1::CallOrigin origin;                          // of the call that made it, for logs and traces

  JobState state = JobState::kQueued;
  QueueReason queue_reason = QueueReason::kNone;  // set only in QUEUED
  std::string queue_message;                      // the same for people; may be empty
  uint32_t attempt = 0;                           // placements on a worker; 0 before the first
  uint32_t crashes_in_row = 0;  // counted engine crashes since the last committed checkpoint
  // Any crash since then, also an uncounted one (the engine had other work, too).
  bool crashed_since_checkpoint = false;
  // Workers on which its engine died since the last checkpoint. Others are tried first.
  std::vector<std::string> crashed_on;
  bool keep_on_cancel = false;        // in CANCELLING: its worker first commits a checkpoint
  StopCause stop = StopCause::kNone;  // while it holds a lease; not stored
  JobLease lease;                     // of its only part
  internal::JobProgress progress;
  std::vector<CheckpointRecord> checkpoints;  // kept ones, oldest first
  std::vector<v1::TrainingPreview> previews;  // kept ones (training_curve.h), by step
  std::optional<double> best_preview_psnr;    // dB, over all checkpoints ever committed
  std::optional<double> final_psnr;           // dB, over all test views; set in SUCCEEDED
  JobError error;                             // set in FAILED
  absl::Time create_time = absl::InfinitePast();
  absl::Time start_time = absl::InfinitePast();  // first RUNNING; InfinitePast before
  absl::Time end_time = absl::InfinitePast();    // final; InfinitePast before
  absl::Time end_age = absl::InfinitePast();     // final; in the store's time (StoredState::age)
  v1::CropBox crop;  // that renders and exports of it show; without sides: everything
  // Deadlines by the wall clock: of its first placement, and of its end.
  absl::Time start_by = absl::InfiniteFuture();
  absl::Time end_by = absl::InfiniteFuture();
  uint64_t last_event_sequence = 0;  // of its last stored event
};

// Whether other jobs still train the parts of this one, so that no worker is wanted.
inline bool WaitsForParts(const Job& job) {
  return !job.parts.empty() && job.part_models.empty() && job.checkpoints.empty();
}
// Whether other jobs have to end before the job wants a worker.
inline bool WaitsForJobs(const Job& job) { return job.awaits_poses || WaitsForParts(job); }
// Whether the next worker is to merge its parts.
inline bool WantsMerge(const Job& job) {
  return !job.part_models.empty() && job.checkpoints.empty();
}

// The only way to change a job's state: sets state, queue reason and times. If the diagram in
// job_state.h has no such arrow, returns Internal and changes nothing. `now` is wall time, for
// display.
absl::Status Transition(Job& job, JobState to, absl::Time now,
                        QueueReason reason = QueueReason::kNone);

// Drops the list of files of a pose job that has ended. JobStore::LoadJob has it.
void LeaveFilesInStore(Job* job);

// Memory that the job takes, and would with the list; without its events and curve.
uint64_t BytesOf(const Job& job);

// Differs after a change of state, display_name, priority, labels, deadlines or crop.
std::string EtagOf(const Job& job);

// Removes the checkpoints that a job no longer keeps from `checkpoints` (oldest first) and returns
// them: all but the last `n_kept`, the best by preview PSNR (the newer of equals) and the promoted
// ones.
std::vector<CheckpointRecord> RetireCheckpoints(std::vector<CheckpointRecord>& checkpoints,
                                                size_t n_kept);

}  // namespace nerf
