#include "server/queue/upkeep/queue_admin.h"

#include <algorithm>
#include <set>
#include <unordered_set>
#include <utility>

#include "common/logging.h"
#include "common/status_macros.h"
#include "server/queue/resources/resource_error.h"
#include "server/queue/state/named_blobs.h"
#include "server/queue/state/quota.h"

namespace nerf {
namespace {

// An upload that no resource has named for this long is collected (BlobStoreOptions).
constexpr absl::Duration kUploadLife = absl::Hours(24);
constexpr size_t kSliceBlobs = 4000;  // read per acquisition of the lock

// Distinct blobs by project.
struct BlobTally {
  std::unordered_set<std::string> seen;
  uint64_t byte_size = 0;
};
using Tallies = std::map<std::string, BlobTally>;

// Adds the blobs of all records, which are read in slices.
template <typename Records>
void AddAll(QueueState& state, Records QueueState::*records, Tallies* tallies) {
  ResourceKey from;
  bool more = true;
  while (more) {
    std::vector<std::pair<std::string, BlobRef>> slice;
    {
      MutexLock lock(state.mu);
      const Records& all = state.*records;
      auto it = all.upper_bound(from);
      for (; it != all.end() && slice.size() < kSliceBlobs; ++it) {
        from = it->first;
        for (const BlobRef& blob : BlobsOf(it->second)) slice.emplace_back(from.project, blob);
      }
      more = it != all.end();
    }
    for (const auto& [project, blob] : slice) {
      BlobTally& tally = (*tallies)[project];
      if (tally.seen.insert(blob.sha256).second) tally.byte_size += blob.byte_size;
    }
  }
}

// The projects of the keys of a map, which is sorted by project.
template <typename Records>
void AddProjects(const Records& records, std::set<std::string>* projects) {
  for (auto it = records.begin(); it != records.end();) {
    const std::string project = it->first.project;
    projects->insert(project);
    // '~' sorts behind every character of an id.
    it = records.upper_bound({project, "~"});
  }
}

}  // namespace

RenderTicket::~RenderTicket() {
  MutexLock lock(counts_->mu);
  const auto found = counts_->renders.find(project_);
  if (--found->second == 0) counts_->renders.erase(found);
}

QueueAdmin::QueueAdmin(QueueState* state, WorkerTable* workers)
    : state_(*state), workers_(*workers), renders_(std::make_shared<RenderTicket::Counts>()) {
  MutexLock lock(state_.mu);
  for (const std::string& worker : state_.drained_workers) workers_.SetDrained(worker, true);
}

ProjectView QueueAdmin::ViewOf(const std::string& project) {
  ProjectView view;
  view.record.project = project;
  if (const auto found = state_.projects.find(project); found != state_.projects.end()) {
    view.record = found->second;
  }
  const auto queued = state_.job_counts.find({project, JobState::kQueued});
  if (queued != state_.job_counts.end()) view.usage.queued_jobs = queued->second;
  view.usage.running_jobs = LeasesOf(state_, project);
  view.usage.stored_bytes = StoredBytesOf(state_, project);
  if (view.record.day == DayOf(state_.clock.WallNow())) {
    view.usage.device_seconds = view.record.device_seconds;
  }
  MutexLock lock(renders_->mu);
  const auto renders = renders_->renders.find(project);
  if (renders != renders_->renders.end()) view.usage.renders = renders->second;
  return view;
}

ProjectView QueueAdmin::GetProject(const std::string& project) {
  MutexLock lock(state_.mu);
  return ViewOf(project);
}

std::vector<ProjectView> QueueAdmin::ListProjects() {
  std::vector<ProjectView> views;
  MutexLock lock(state_.mu);
  std::set<std::string> projects;
  for (const auto& [project, record] : state_.projects) projects.insert(project);
  AddProjects(state_.scenes, &projects);
  AddProjects(state_.jobs, &projects);
  AddProjects(state_.models, &projects);
  for (const std::string& project : projects) views.push_back(ViewOf(project));
  return views;
}

absl::StatusOr<ProjectView> QueueAdmin::UpdateProject(
    const std::string& project, const std::function<void(ProjectRecord&)>& change) {
  const ClaimKey key{ClaimKey::Kind::kProject, {project, ""}};
  QueueLock lock(state_);
  state_.AwaitUnclaimed({key});
  NERF_RETURN_IF_ERROR(CheckNewSettings(state_, project));
  ProjectRecord changed = ViewOf(project).record;
  change(changed);
  StoreWrite write;
  write.projects.push_back(changed);
  Claim claim(state_, {key});
  NERF_RETURN_IF_ERROR(state_.Commit(std::move(write)));
  // The settings alone: the meter may have counted during the commit.
  ProjectRecord& record = state_.projects[project];
  record.project = project;
  record.quota = changed.quota;
  record.retention = changed.retention;
  // Jobs may start now.
  for (const auto& [worker, signal] : state_.work_signals) state_.wake.push_back(signal);
  return ViewOf(project);
}

absl::StatusOr<WorkerRecord> QueueAdmin::SetDrained(const std::string& worker, bool drained) {
  const ClaimKey key{ClaimKey::Kind::kWorker, {"", worker}};
  QueueLock lock(state_);
  state_.AwaitUnclaimed({key});
  if (!workers_.Find(worker).has_value()) return ResourceNotFound("workers/" + worker);
  if (state_.drained_workers.contains(worker) != drained) {
    StoreWrite write;
    write.drained_workers.emplace_back(worker, drained);
    Claim claim(state_, {key});
    NERF_RETURN_IF_ERROR(state_.Commit(std::move(write)));
    if (drained) {
      state_.drained_workers.insert(worker);
    } else {
      state_.drained_workers.erase(worker);
    }
    LogInfo(drained ? "worker drained" : "worker undrained", {{"worker", worker}});
  }
  const std::optional<WorkerRecord> before = workers_.Find(worker);
  workers_.SetDrained(worker, drained);
  state_.Wake(worker);
  const std::optional<WorkerRecord> after = workers_.Find(worker);
  // A worker that was listed only because it was drained is not found any more.
  return after.has_value() ? *after : before.value_or(WorkerRecord());
}

absl::Status QueueAdmin::CheckUpload(const std::string& project, uint64_t byte_size) {
  MutexLock lock(state_.mu);
  NERF_RETURN_IF_ERROR(CheckNewUpload(state_, project));
  return CheckStoredBytes(state_, project, byte_size);
}

void QueueAdmin::NoteUpload(const std::string& project, const BlobRef& blob) {
  MutexLock lock(state_.mu);
  const auto found = state_.projects.find(project);
  // Without a limit nothing is remembered.
  if (found == state_.projects.end() || found->second.quota.max_stored_bytes == 0) return;
  StoredBytes& stored = state_.stored_bytes[project];
  const bool is_new =
      stored.uploads
          .insert_or_assign(blob.sha256, StoredBytes::Upload{blob.byte_size, state_.clock.Now()})
          .second;
  if (is_new) stored.uploaded += blob.byte_size;
}

void QueueAdmin::CountStoredBytes() {
  Tallies tallies;
  AddAll(state_, &QueueState::scenes, &tallies);
  AddAll(state_, &QueueState::jobs, &tallies);
  AddAll(state_, &QueueState::models, &tallies);
  MutexLock lock(state_.mu);
  const SteadyTime now = state_.clock.Now();
  for (auto& [project, stored] : state_.stored_bytes) {
    const auto tally = tallies.find(project);
    std::erase_if(stored.uploads, [&](const auto& upload) {
      return now - upload.second.time > kUploadLife ||
             (tally != tallies.end() && tally->second.seen.contains(upload.first));
    });
    stored.named = 0;
    stored.uploaded = 0;
    for (const auto& [sha256, upload] : stored.uploads) stored.uploaded += upload.byte_size;
  }
  for (const auto& [project, tally] : tallies) {
    state_.stored_bytes[project].named = tally.byte_size;
  }
  std::erase_if(state_.stored_bytes, [](const auto& stored) {
    return stored.second.named == 0 && stored.second.uploads.empty();
  });
}

absl::StatusOr<std::shared_ptr<RenderTicket>> QueueAdmin::BeginRender(const std::string& project) {
  uint64_t max = 0;
  {
    MutexLock lock(state_.mu);
    const auto found = state_.projects.find(project);
    if (found != state_.projects.end()) max = found->second.quota.max_renders;
  }
  MutexLock lock(renders_->mu);
  uint64_t& n = renders_->renders[project];
  if (max > 0 && n >= max) {
    return QuotaExceeded(project, "max_renders", static_cast<double>(max), "renders in progress");
  }
  ++n;
  return std::make_shared<RenderTicket>(renders_, project);
}

}  // namespace nerf
