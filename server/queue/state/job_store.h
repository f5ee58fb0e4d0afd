#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/queue/jobs/job.h"
#include "server/queue/jobs/job_event.h"
#include "server/queue/jobs/model_record.h"
#include "server/queue/jobs/training_curve.h"
#include "server/queue/resources/blob_ref.h"
#include "server/queue/resources/project_record.h"
#include "server/queue/resources/resource_key.h"
#include "server/queue/resources/scene_record.h"

namespace nerf {

// A remembered request: the resource that it made and the digest of its body. Kept at least seven
// days.
struct RequestRecord {
  enum class Kind { kJob, kScene, kModel, kDeletedJob };
  Kind kind = Kind::kJob;
  std::string project;
  std::string request_id;
  std::string resource_id;
  std::string fingerprint;  // SHA-256 of the request's body
  absl::Time create_time;   // in the store's time (StoredState::age)
};

// A blob that a project has uploaded and that no resource of it names yet.
struct UploadRecord {
  std::string project;
  BlobRef blob;
  absl::Time time;  // in the store's time (StoredState::age)

  bool operator==(const UploadRecord&) const = default;
};

// A changed job. The store replaces the job's row (checkpoints included).
struct JobWrite {
  Job job;
  // The fence: the stored lease epoch that the change is based on. nullopt inserts a new job.
  std::optional<uint64_t> expected_epoch;
};

// FailedPrecondition LEASE_FENCED: the job's row is at the epoch `current` ("none": there is none).
absl::Status StaleEpochError(const JobWrite& write, const std::string& current);

// One transaction: everything in it happens, or nothing.
struct StoreWrite {
  std::vector<JobWrite> jobs;
  std::vector<std::pair<ResourceKey, JobEvent>> events;          // appended
  std::vector<std::pair<ResourceKey, uint64_t>> trimmed_events;  // drop events up to this sequence
  std::vector<std::pair<ResourceKey, TrainingCurve>> curves;     // replace those of the job
  std::vector<SceneRecord> new_scenes;
  std::vector<ResourceKey> deleted_scenes;
  std::vector<ModelRecord> models;  // each new, or in place of the one of its name
  std::vector<ResourceKey> deleted_models;
  // Their curves go too; their events are trimmed in the same write.
  std::vector<ResourceKey> deleted_jobs;
  std::vector<RequestRecord> new_requests;  // replaces one with the same id
  std::optional<absl::Time> forget_requests_before;
  std::optional<absl::Time> age;  // StoredState::age from now on
  // Projects, each with a time: forget its requests from before that.
  std::vector<std::pair<std::string, absl::Time>> forget_requests_of;
  std::vector<ProjectRecord> projects;                        // replace those of their names
  std::vector<std::pair<std::string, bool>> drained_workers;  // by id: drained from now on, or not
  std::vector<UploadRecord> uploads;                          // replace those of project and sha256
  std::vector<std::pair<std::string, std::string>> deleted_uploads;  // by project and sha256

  // True if it deletes or changes states and makes nothing new. Such a write may use the space
  // reserved for a full disk.
  bool MayUseReserve() const;
};

// The contents of a store, loaded at start-up.
struct StoredState {
  std::string store_epoch;  // random, drawn when the store was made; part of every watch token
  // Random, drawn when the store was made, and anew with each new epoch: signs tokens of watches
  // and pages (TokenSealer). Never leaves the server.
  std::string token_secret;
  // The store's own clock, for the age of requests. It runs only while a server does, so jumps of
  // the wall clock do not age them. Unset in stores of older versions.
  std::optional<absl::Time> age;
  std::vector<Job> jobs;
  std::vector<std::pair<ResourceKey, JobEvent>> events;  // per job by sequence
  std::vector<SceneRecord> scenes;
  std::vector<ModelRecord> models;
  std::vector<RequestRecord> requests;
  std::vector<ProjectRecord> projects;
  std::vector<std::string> drained_workers;  // ids
  std::vector<UploadRecord> uploads;
};

// The durable storage of the queue. Thread-safe.
class JobStore {
 public:
  virtual ~JobStore() = default;

  // Everything committed so far, without the files of ended jobs (LeaveFilesInStore). DataLoss
  // STORE_CORRUPT when it cannot be read.
  virtual absl::StatusOr<StoredState> Load() = 0;

  // A job with all that is stored; nullopt where there is none. DataLoss STORE_CORRUPT.
  virtual absl::StatusOr<std::optional<Job>> LoadJob(const ResourceKey& job) = 0;

  // The stored curves of a job; empty where there are none. DataLoss STORE_CORRUPT.
  virtual absl::StatusOr<TrainingCurve> LoadCurve(const ResourceKey& job) = 0;

  // Commits a transaction; OK means that it survives a power cut. Errors (nothing changed):
  // FailedPrecondition LEASE_FENCED when a job's stored lease epoch is not the expected one,
  // AlreadyExists for an insert of an existing row, Unavailable STORE_READ_ONLY when the disk is
  // full or has failed, DataLoss STORE_CORRUPT. Internal: a bug, or it is unknown whether the
  // change is stored; in the second case the store refuses every later commit until a restart.
  virtual absl::Status Commit(const StoreWrite& write) = 0;

  // Whether writes are refused, because there is no room or since the disk has failed.
  virtual bool read_only() const { return false; }

  // Commits or refuses each write as Commit would in turn, but with one sync to disk for all if the
  // store supports it. Returns a status per write, in order.
  virtual std::vector<absl::Status> CommitAll(std::span<const StoreWrite* const> writes);
};

}  // namespace nerf
