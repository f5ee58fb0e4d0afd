#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/queue/jobs/job.h"
#include "server/queue/jobs/job_inputs.h"
#include "server/queue/jobs/job_outcome.h"
#include "server/queue/jobs/job_spec.h"
#include "server/queue/kinds/worker_description.h"
#include "server/queue/resources/blob_ref.h"
#include "server/queue/resources/resource_key.h"
#include "server/queue/resources/scene_record.h"

namespace nerf {

// What is fixed of a kind of job.
struct KindTraits {
  JobKind kind;
  std::string_view name;       // "TRAINING": stored
  std::string_view id_prefix;  // of ids that the queue draws: "j" of "j-7f3k2c81"

  // An attempt begins from the start, since nothing of an earlier one is kept.
  bool starts_over = false;
  // Its workers commit checkpoints: the job can be paused, retried and extended, it can have
  // deadlines and a crop, and models, renders and exports are made of it.
  bool has_checkpoints = false;
  // It trains until its config's budget is used, so that TrainingRates know how long it takes.
  bool has_budget = false;
  // Each part has a lease of its own (RenderPart). Otherwise the job has one, which the members of
  // a gang hold together.
  bool has_part_leases = false;
  // It cannot begin without a scene (KindPolicy::SceneReadBy).
  bool needs_scene = false;
  // Its worker commits the scene PoseSpec::scene, which ends the job.
  bool makes_scene = false;
  // Of one project, jobs that wait stop running ones with a lower priority.
  bool preempts = false;
  // Only its files need room on a worker's disk, so it waits for room as long as it takes. Others
  // fail after kMaxNoRoomRounds: their work may fill any disk.
  bool waits_for_room = false;
  // A crash may be its worker's fault. False where it is the input's: the work runs in a program of
  // its own, or has no engine for itself.
  bool may_blame_worker = false;
};

// The last lease of a part.
struct PartLease {
  std::string_view worker;  // empty: none, or its own lease is over
  uint64_t epoch = 0;
};

// All that the queue knows of a kind of job. Job and JobSpec have what all kinds share, and a spec
// and an outcome of each. Immutable, without state; PolicyOf has the one object of each kind.
//
// To add a kind: its enumerator in jobs/job_kind.h, its spec and outcome as members of Job with
// their KindRecord in records/NAME_record.cc, a source NAME_kind.cc of this folder, and its object
// below and in All. What needs the queue's state (grants of parts, the commit of a scene) stands in
// state/ and leases/ and is done for the kinds with a trait. Nothing outside of this folder names a
// kind. CONTRIBUTING.md has what else a kind needs: its messages, and what people see of it.
class KindPolicy {
 public:
  explicit KindPolicy(const KindTraits& traits) : traits_(traits) {}
  virtual ~KindPolicy() = default;
  KindPolicy(const KindPolicy&) = delete;
  KindPolicy& operator=(const KindPolicy&) = delete;

  // In the order of JobKind.
  static std::span<const KindPolicy* const> All();
  const KindTraits& traits() const { return traits_; }

  // New jobs.

  // What CheckJobNames leaves: InvalidArgument FIELD_INVALID that names every wrong field. With
  // `validate_only` the scene of a job that needs one may be missing.
  virtual absl::Status CheckSpec(const JobSpec& spec, bool validate_only) const = 0;
  // Of what the client asked for: a repeated request has the same.
  virtual std::string FingerprintOf(const JobSpec& spec) const = 0;
  // The model that the job is of; null for none.
  virtual const ModelSource* SourceOf(const JobSpec& /*spec*/) const { return nullptr; }
  // Gives a new job the model that `source` stands for, and the box that is kept with it.
  virtual void UseModel(const ModelSource& /*source*/, const FoundModel& /*found*/,
                        Job& /*job*/) const {}

  // Workers and leases.

  using Workers = std::vector<const WorkerDescription*>;
  // The capability that a worker needs for the job, or for its next part.
  virtual std::string_view CapabilityOf(const Job& job) const = 0;
  // Why none of the workers that take jobs can take this one, for people. At least one takes jobs;
  // none offers CapabilityOf(job).
  virtual std::string WhyNoWorker(const Job& job, const Workers& workers) const = 0;
  // Whether the job has work that is waiting for a worker.
  virtual bool WantsWorker(const Job& job) const;
  // Number of parts, each with a deadline of its own: the ranks of a gang, which have one lease
  // together, or parts with leases of their own.
  virtual uint32_t PartsOf(const Job& job) const;
  // The last lease of a part; without a worker for a number that is no part's.
  virtual PartLease LeaseOf(const Job& job, uint32_t part) const;

  // Ends.

  // Takes what the success of a job of one lease must hold. FailedPrecondition STATE_CONFLICT where
  // that is missing.
  virtual absl::Status TakeResult(const JobOutcome& /*outcome*/, Job& /*job*/) const {
    return absl::OkStatus();
  }

  // Resources.

  // Id of the scene that the job reads, which is kept until the job has ended; empty for none.
  virtual const std::string& SceneReadBy(const Job& job) const { return job.training.scene; }
  // What the next placement fetches, without the checkpoint that it goes on from: where that is
  // damaged there is one before. `scene` is the one that it reads; null for none.
  virtual std::vector<JobInput> InputsOf(const Job& job, const SceneRecord* scene) const;
  // Adds the blobs that jobs of this kind alone refer to (BlobsOf).
  virtual void AddBlobs(const Job& job, std::vector<BlobRef>* blobs) const = 0;

 private:
  static const KindPolicy& Training();
  static const KindPolicy& Render();
  static const KindPolicy& Pose();
  static const KindPolicy& Export();
  const KindTraits traits_;
};

const KindPolicy& PolicyOf(JobKind kind);
inline const KindPolicy& PolicyOf(const Job& job) { return PolicyOf(job.kind); }
inline const KindTraits& TraitsOf(JobKind kind) { return PolicyOf(kind).traits(); }
inline const KindTraits& TraitsOf(const Job& job) { return TraitsOf(job.kind); }

// "TRAINING", and the inverse; kDefaultJobKind for no name.
inline std::string_view JobKindName(JobKind kind) { return TraitsOf(kind).name; }
absl::StatusOr<JobKind> ParseJobKind(std::string_view name);
// "training": for people and filters.
std::string JobKindWord(JobKind kind);

// FailedPrecondition KIND_CANNOT: "projects/p/jobs/j is a render job: it `cannot`".
absl::Status KindCannot(const Job& job, std::string_view cannot);
inline absl::Status RequireKind(const Job& job, bool can, std::string_view cannot) {
  return can ? absl::OkStatus() : KindCannot(job, cannot);
}
// A deadline is for kinds with checkpoints alone, and must be after `now`.
void CheckDeadline(std::string_view field, const Job& job, absl::Time deadline, absl::Time now,
                   RequestCheck& check);

// Whether several workers hold its one lease together.
inline bool IsGang(const Job& job) { return job.lease.IsGang() && !TraitsOf(job).has_part_leases; }

// As of KindPolicy.
inline std::string_view CapabilityOf(const Job& job) { return PolicyOf(job).CapabilityOf(job); }
inline const std::string& SceneReadBy(const Job& job) { return PolicyOf(job).SceneReadBy(job); }

// Every blob that the job refers to, which the collector then keeps: results while the job exists,
// inputs until it is final.
std::vector<BlobRef> BlobsOf(const Job& job);

}  // namespace nerf
