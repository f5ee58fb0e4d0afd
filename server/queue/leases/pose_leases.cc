// The part of LeaseTable that is about pose jobs.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "common/logging.h"
#include "common/messages/deterministic_bytes.h"
#include "common/status_macros.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/kinds/pose_kind.h"
#include "server/queue/leases/lease_table.h"
#include "server/queue/resources/resource_error.h"
#include "server/queue/resources/scene_manifest.h"
#include "server/queue/state/quota.h"

namespace nerf {
namespace {

SceneRecord SceneOfPoses(const Job& job, std::vector<SceneFileRecord> files) {
  SceneRecord scene;
  scene.key = {job.key.project, job.pose.scene};
  scene.display_name = job.display_name;
  scene.files = std::move(files);
  std::sort(scene.files.begin(), scene.files.end(),
            [](const SceneFileRecord& a, const SceneFileRecord& b) { return a.path < b.path; });
  for (const SceneFileRecord& file : scene.files) scene.byte_size += file.blob.byte_size;
  return scene;
}

}  // namespace

absl::Status LeaseTable::CommitPoses(const LeaseRef& lease, const v1::PoseReport& report,
                                     std::vector<SceneFileRecord> files) {
  const bool has_scene = !files.empty();
  if (has_scene) NERF_RETURN_IF_ERROR(CheckManifest(files));
  std::vector<BlobRef> needed;
  for (const SceneFileRecord& file : files) needed.push_back(file.blob);
  AddBlobs(report, &needed);
  // Without the lock, because it reads the file system.
  const absl::Status present = state_.RequireBlobs(needed);
  QueueLock lock(state_);
  NERF_ASSIGN_OR_RETURN(const JobEntry* existing, state_.FindUnclaimedJob(lease.job));
  // A repeated call, because the reply was lost.
  if (existing->job.state == JobState::kSucceeded && existing->job.lease.epoch == lease.epoch &&
      existing->job.pose_report.has_value() && AreEqual(*existing->job.pose_report, report)) {
    return absl::OkStatus();
  }
  NERF_ASSIGN_OR_RETURN(LeasedChange leased, BeginLeased(lease, "CommitPoses", JobState::kRunning));
  JobEntry& entry = *leased.entry;
  Job& job = leased.change.job;
  if (absl::Status can = RequireKind(job, TraitsOf(job).makes_scene, "has no poses"); !can.ok()) {
    return Refuse(std::move(leased), std::move(can));
  }
  if (job.state == JobState::kCancelling) {
    return Refuse(std::move(leased),
                  StateConflict(fmt::format("{} is cancelled", JobName(lease.job))));
  }
  if (!present.ok()) return Refuse(std::move(leased), present);
  job.pose_report = report;
  if (job.state == JobState::kPreparing) {
    NERF_RETURN_IF_ERROR(leased.change.Move(JobState::kRunning));
  }
  if (!has_scene) {
    leased.change.Record(JobEventKind::kProgress);
    return state_.Apply(entry, std::move(leased.change));
  }
  SceneRecord scene = SceneOfPoses(job, std::move(files));
  if (state_.FindScene(scene.key) != nullptr) {
    return Refuse(std::move(leased), ResourceExists(SceneName(scene.key)));
  }
  absl::Status room = CheckNewRecord(state_, scene.key.project, BytesOf(scene));
  room.Update(CheckStoredBytes(state_, scene.key.project, 0));
  if (!room.ok()) return Refuse(std::move(leased), std::move(room));
  scene.create_sequence = state_.TakeSequences();
  scene.create_time = state_.clock.WallNow();
  NERF_RETURN_IF_ERROR(leased.change.Move(JobState::kSucceeded));
  NERF_RETURN_IF_ERROR(state_.Apply(entry, std::move(leased.change), {scene}));
  NoteWorked(lease.worker);
  state_.observer.OnAttemptEnded(entry.job, "completed");
  LogInfo("scene created of a pose job", {{"project", scene.key.project},
                                          {"scene", scene.key.id},
                                          {"job", lease.job.id},
                                          {"files", scene.files.size()}});
  return absl::OkStatus();
}

}  // namespace nerf
