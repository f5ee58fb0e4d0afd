#include "server/queue/upkeep/queue_admin.h"

#include <algorithm>
#include <set>
#include <unordered_set>
#include <utility>

#include "common/logging.h"
#include "common/status_macros.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/resources/resource_error.h"
#include "server/queue/state/quota.h"

namespace nerf {
namespace {

// An upload that no resource has named for this long is collected (BlobStoreOptions).
constexpr absl::Duration kUploadLife = absl::Hours(24);

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
  for (const std::string& worker : state_.drained_workers()) workers_.SetDrained(worker, true);
}

ProjectView QueueAdmin::ViewOf(const std::string& project) {
  ProjectView view;
  view.record.project = project;
  if (const ProjectRecord* const found = state_.FindProject(project)) view.record = *found;
  view.usage.queued_jobs = state_.index().CountOf(project, JobState::kQueued);
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
  for (const auto& [project, record] : state_.projects()) projects.insert(project);
  AddProjects(state_.scenes(), &projects);
  AddProjects(state_.jobs(), &projects);
  AddProjects(state_.models(), &projects);
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
  state_.TakeSettings(changed);
  // Jobs may start now.
  state_.WakeAllWorkers();
  return ViewOf(project);
}

absl::StatusOr<WorkerRecord> QueueAdmin::SetDrained(const std::string& worker, bool drained) {
  const ClaimKey key{ClaimKey::Kind::kWorker, {"", worker}};
  QueueLock lock(state_);
  state_.AwaitUnclaimed({key});
  if (!workers_.Find(worker).has_value()) return ResourceNotFound("workers/" + worker);
  if (state_.drained_workers().contains(worker) != drained) {
    StoreWrite write;
    write.drained_workers.emplace_back(worker, drained);
    Claim claim(state_, {key});
    NERF_RETURN_IF_ERROR(state_.Commit(std::move(write)));
    state_.SetDrained(worker, drained);
    LogInfo(drained ? "worker drained" : "worker undrained", {{"worker", worker}});
  }
  const std::optional<WorkerRecord> before = workers_.Find(worker);
  workers_.SetDrained(worker, drained);
  state_.Wake(worker);
  const std::optional<WorkerRecord> after = workers_.Find(worker);
  // A worker that was listed only because it was drained is not found any more.
  return after.has_value() ? *after : before.value_or(WorkerRecord());
}

absl::Status QueueAdmin::BeginUpload(const std::string& project, const std::string& upload,
                                     uint64_t byte_size) {
  MutexLock lock(state_.mu);
  uint64_t counted = 0;
  const StoredBytes* const stored = state_.stored_use().Of(project);
  if (stored != nullptr && stored->uploads.contains(upload)) {
    counted = stored->uploads.at(upload).byte_size;
  } else {
    NERF_RETURN_IF_ERROR(CheckNewUpload(state_, project));
  }
  if (byte_size > counted) {
    NERF_RETURN_IF_ERROR(CheckStoredBytes(state_, project, byte_size - counted));
  }
  state_.stored_use().Count(project, upload, {byte_size, state_.Age(), /*unfinished=*/true});
  return absl::OkStatus();
}

void QueueAdmin::NoteUnfinished(const std::string& project, const std::string& upload,
                                uint64_t byte_size) {
  MutexLock lock(state_.mu);
  state_.stored_use().Count(project, upload, {byte_size, state_.Age(), /*unfinished=*/true});
}

void QueueAdmin::DropUpload(const std::string& project, const std::string& upload) {
  MutexLock lock(state_.mu);
  state_.stored_use().Uncount(project, upload);
}

absl::Status QueueAdmin::FinishUpload(const std::string& project, const std::string& upload,
                                      const BlobRef& blob) {
  QueueLock lock(state_);
  StoreWrite write;
  write.uploads.push_back({project, blob, state_.Age()});
  const absl::Status stored = state_.Commit(std::move(write));
  state_.stored_use().Uncount(project, upload);
  if (stored.ok()) {
    state_.stored_use().Count(project, blob.sha256, {blob.byte_size, state_.Age()});
  }
  return stored;
}

void QueueAdmin::CountStoredBytes() {
  std::map<std::string, StoredUse::Named> named;
  state_.VisitNamedBlobs([&](const std::string& project, const BlobRef& blob) {
    StoredUse::Named& of_project = named[project];
    if (of_project.blobs.insert(blob.sha256).second) of_project.byte_size += blob.byte_size;
  });
  QueueLock lock(state_);
  StoreWrite write;
  write.deleted_uploads = state_.stored_use().Recount(named, state_.Age() - kUploadLife);
  // What this fails to delete comes back at the next start, and is deleted after that.
  if (!write.deleted_uploads.empty()) state_.Submit(std::move(write), [](const absl::Status&) {});
}

absl::StatusOr<std::shared_ptr<RenderTicket>> QueueAdmin::BeginRender(const std::string& project) {
  uint64_t max = 0;
  {
    MutexLock lock(state_.mu);
    const ProjectRecord* const found = state_.FindProject(project);
    if (found != nullptr) max = found->quota.max_renders;
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
