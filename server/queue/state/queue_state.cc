#include "server/queue/state/queue_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/log_options.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/resources/resource_error.h"
#include "server/queue/state/named_blobs.h"
#include "server/queue/state/quota.h"

namespace nerf {
namespace {

QueueObserver& NullObserver() {
  static QueueObserver observer;
  return observer;
}

}  // namespace

QueueState::QueueState(const QueueOptions& queue_options, const Dependencies& dependencies)
    : options(queue_options),
      clock(*dependencies.clock),
      random(*dependencies.random),
      store(*dependencies.store),
      blobs(*dependencies.blobs),
      observer(dependencies.observer != nullptr ? *dependencies.observer : NullObserver()),
      machine_clock_(dependencies.machine_clock != nullptr ? *dependencies.machine_clock : clock),
      opened_at_(machine_clock_.Now()),
      age_at_open_(clock.WallNow()) {
  if (!dependencies.groups_commits) return;
  writer_ = std::make_unique<StoreWriter>(
      &store, &machine_clock_,
      [this](std::vector<StoreWriter::Finished> finished, absl::Duration duration) {
        Deliver(std::move(finished), duration);
      });
}

QueueState::~QueueState() { writer_.reset(); }

absl::StatusOr<std::unique_ptr<QueueState>> QueueState::Open(const QueueOptions& options,
                                                             const Dependencies& dependencies) {
  auto state = std::unique_ptr<QueueState>(new QueueState(options, dependencies));
  NERF_ASSIGN_OR_RETURN(StoredState stored, state->store.Load());
  NERF_RETURN_IF_ERROR(state->Restore(std::move(stored)));
  return state;
}

template <typename Records>
void QueueState::VisitBlobsOf(const Records& (QueueState::*records)() const,
                              const BlobVisit& visit) {
  constexpr size_t kSliceBlobs = 4000;  // takes one or two milliseconds
  ResourceKey from;
  bool more = true;
  while (more) {
    std::vector<std::pair<std::string, BlobRef>> slice;
    {
      MutexLock lock(mu);
      const Records& all = (this->*records)();
      auto it = all.upper_bound(from);
      for (; it != all.end() && slice.size() < kSliceBlobs; ++it) {
        from = it->first;
        for (const BlobRef& blob : BlobsOf(it->second)) slice.emplace_back(from.project, blob);
      }
      more = it != all.end();
    }
    for (const auto& [project, blob] : slice) visit(project, blob);
  }
}

void QueueState::VisitNamedBlobs(const BlobVisit& visit) {
  VisitBlobsOf(&QueueState::scenes, visit);
  VisitBlobsOf(&QueueState::jobs, visit);
  VisitBlobsOf(&QueueState::models, visit);
}

std::set<std::string> QueueState::ReachableBlobs() {
  MutexLock one_at_a_time(reach_mu_);
  {
    MutexLock lock(mu);
    new_references_.emplace();
    for (const auto& [key, job] : jobs_in_creation_) {
      for (const BlobRef& blob : BlobsOf(job)) NoteReference(blob);
    }
  }
  std::set<std::string> reachable;
  VisitNamedBlobs([&](const std::string&, const BlobRef& blob) { reachable.insert(blob.sha256); });
  MutexLock lock(mu);
  reachable.merge(*new_references_);
  new_references_.reset();
  return reachable;
}

void QueueState::NoteReference(const BlobRef& blob) {
  if (new_references_.has_value()) new_references_->insert(blob.sha256);
}

absl::Time QueueState::Age() const { return age_at_open_ + (machine_clock_.Now() - opened_at_); }

void QueueState::StoreAge() {
  QueueLock lock(*this);
  StoreWrite write;
  write.age = Age();
  Submit(std::move(write), [](const absl::Status&) {});
}

bool QueueState::StoreHangs() const {
  constexpr absl::Duration kHang = absl::Seconds(1);
  return writer_ != nullptr && writer_->BusyFor() >= kHang;
}

void QueueState::Submit(StoreWrite write, Done done) {
  if (writer_ != nullptr) return writer_->Submit(std::move(write), std::move(done));
  const SteadyTime start = machine_clock_.Now();
  const absl::Status status = store.Commit(write);
  Committed(status, machine_clock_.Now() - start);
  done(status);
}

void QueueState::Deliver(std::vector<StoreWriter::Finished> finished, absl::Duration duration) {
  QueueLock lock(*this);
  absl::Status failed;
  for (const StoreWriter::Finished& write : finished) failed.Update(write.status);
  Committed(failed, duration);
  for (const StoreWriter::Finished& write : finished) write.done(write.status);
}

void QueueState::Committed(const absl::Status& status, absl::Duration duration) {
  observer.OnCommit(duration, status.ok());
  if (status.ok() || clock.Now() < next_error_log_) return;
  // A failing store may refuse many writes a second. Log some of them.
  constexpr absl::Duration kErrorLogInterval = absl::Seconds(10);
  next_error_log_ = clock.Now() + kErrorLogInterval;
  LogError("commit failed", {{"error", std::string(status.message())}});
}

absl::Status QueueState::Commit(StoreWrite write) {
  std::optional<absl::Status> result;
  CondVar done;
  Submit(std::move(write), [&](const absl::Status& status) {
    result = status;
    done.NotifyOne();
  });
  while (!result.has_value()) done.Wait(mu);
  return *result;
}

bool QueueState::IsClaimed(const ClaimKey& key) const { return claims_.contains(key); }

void QueueState::AwaitUnclaimed(const std::vector<ClaimKey>& keys) {
  while (std::any_of(keys.begin(), keys.end(), [this](const ClaimKey& key) {
    mu.AssertHeld();
    return claims_.contains(key);
  })) {
    claim_lifted_.Wait(mu);
  }
}

Claim::Claim(QueueState& state, std::vector<ClaimKey> keys)
    : state_(state), keys_(std::move(keys)) {
  state_.claims_.insert(keys_.begin(), keys_.end());
}

Claim::~Claim() {
  state_.mu.AssertHeld();
  for (const ClaimKey& key : keys_) state_.claims_.erase(key);
  state_.claim_lifted_.NotifyAll();
}

QueueLock::~QueueLock() {
  std::vector<std::shared_ptr<WatchSignal>> signals;
  signals.swap(state_.wake_);
  state_.mu.Unlock();
  for (const auto& signal : signals) signal->Fire();
}

absl::StatusOr<JobEntry*> QueueState::FindJob(const ResourceKey& key) {
  const auto found = jobs_.find(key);
  if (found != jobs_.end()) return &found->second;
  return ResourceNotFound(JobName(key));
}

absl::StatusOr<JobEntry*> QueueState::FindUnclaimedJob(const ResourceKey& key) {
  AwaitUnclaimed({{ClaimKey::Kind::kJob, key}});
  return FindJob(key);
}

StoreWrite QueueState::WriteOf(JobEntry& entry, JobChange& change) {
  StoreWrite write;
  if (IsFinal(change.job.state) && !IsFinal(change.old_state())) change.job.end_age = Age();
  write.jobs.push_back({change.job, change.old_epoch()});
  for (const JobEvent& event : change.events()) write.events.emplace_back(change.job.key, event);
  const bool ends = IsFinal(change.job.state) && !entry.curve.empty();
  if (entry.curve.TakeChanged() || ends) write.curves.emplace_back(change.job.key, entry.curve);
  const size_t max_events = options.max_events_per_job;
  if (entry.log.size() + change.events().size() > max_events) {
    write.trimmed_events.emplace_back(change.job.key, change.job.last_event_sequence - max_events);
  }
  return write;
}

absl::Status QueueState::Apply(JobEntry& entry, JobChange change,
                               std::vector<SceneRecord> new_scenes) {
  if (change.events().empty()) return absl::OkStatus();
  Claim claim(*this, {{ClaimKey::Kind::kJob, change.job.key}});
  StoreWrite write = WriteOf(entry, change);
  write.new_scenes = new_scenes;
  NERF_RETURN_IF_ERROR(Commit(std::move(write)));
  for (const SceneRecord& scene : new_scenes) AddScene(scene);
  Adopt(entry, std::move(change));
  return absl::OkStatus();
}

void QueueState::AddScene(SceneRecord scene) {
  for (const SceneFileRecord& file : scene.files) NoteReference(file.blob);
  CountRecord(scene.key.project, 0, BytesOf(scene));
  scene_order_.emplace(scene.create_sequence, scene.key);
  const ResourceKey key = scene.key;
  scenes_.emplace(key, std::move(scene));
}

SceneRecord QueueState::RemoveScene(const ResourceKey& key) {
  const auto found = scenes_.find(key);
  SceneRecord removed = std::move(found->second);
  CountRecord(key.project, BytesOf(removed), 0);
  scene_order_.erase(removed.create_sequence);
  scenes_.erase(found);
  return removed;
}

void QueueState::AddModel(ModelRecord model) {
  NoteReference(model.blob);
  CountRecord(model.key.project, 0, BytesOf(model));
  model_order_.emplace(model.create_sequence, model.key);
  const ResourceKey key = model.key;
  models_.emplace(key, std::move(model));
}

void QueueState::ReplaceModel(const ModelRecord& model) {
  ModelRecord& replaced = models_.at(model.key);
  CountRecord(model.key.project, BytesOf(replaced), BytesOf(model));
  replaced = model;
}

void QueueState::RemoveModel(const ResourceKey& key) {
  const auto found = models_.find(key);
  CountRecord(key.project, BytesOf(found->second), 0);
  model_order_.erase(found->second.create_sequence);
  models_.erase(found);
}

bool QueueState::IsSceneTaken(const ResourceKey& key) const {
  return scenes_.contains(key) || promised_scenes_.contains(key) ||
         IsClaimed({ClaimKey::Kind::kScene, key});
}

void QueueState::ApplyLater(JobEntry& entry, JobChange change, Done then) {
  if (change.events().empty()) return;
  const ClaimKey key{ClaimKey::Kind::kJob, change.job.key};
  claims_.insert(key);
  StoreWrite write = WriteOf(entry, change);
  // In a shared_ptr, because std::function needs a copyable callable.
  auto kept = std::make_shared<JobChange>(std::move(change));
  Submit(std::move(write), [this, &entry, key, kept, then](const absl::Status& status) {
    mu.AssertHeld();
    if (status.ok()) Adopt(entry, std::move(*kept));
    claims_.erase(key);
    claim_lifted_.NotifyAll();
    if (then) then(status);
  });
}

void QueueState::Adopt(JobEntry& entry, JobChange change) {
  const JobState old_state = change.old_state();
  std::vector<std::string> old_gang;
  const KindTraits& traits = TraitsOf(entry.job);
  if (IsGang(entry.job) && HoldsLease(old_state) && !HoldsLease(change.job.state)) {
    old_gang = entry.job.lease.members;
  }
  const bool has_newer_progress = entry.log.live_version() != change.old_live_version();
  internal::JobProgress newer_progress = entry.job.progress;
  const StopCause stop = entry.job.stop;
  entry.job = std::move(change.job);
  entry.job.stop = HoldsLease(entry.job.state) && HoldsLease(old_state) ? stop : StopCause::kNone;
  for (const JobEvent& event : change.events()) entry.log.Append(event, MachineNow());
  // Keep progress that was reported while the change was being stored, unless the job has ended.
  if (has_newer_progress && !IsFinal(entry.job.state)) {
    entry.job.progress = std::move(newer_progress);
    NotePreview(entry.job.progress.training(), &entry.job);
    entry.log.SetLiveProgress();
  }
  if (IsFinal(entry.job.state)) entry.curve = {};
  entry.log.Trim(options.max_events_per_job);
  entry.progress_stored_at = clock.Now();
  for (const BlobRef& blob : BlobsOf(entry.job)) NoteReference(blob);
  Reindex(entry, old_state);
  entry.log.SignalAll(wake_);
  LeaveFilesInStore(&entry.job);
  const Job& job = entry.job;
  rows_.Changed(job.key, wake_);
  const bool moved =
      std::any_of(change.events().begin(), change.events().end(),
                  [](const JobEvent& event) { return event.kind == JobEventKind::kStateChanged; });
  if (!moved && !traits.has_part_leases) return;
  WakeWorkers(job);
  for (const std::string& worker : old_gang) Wake(worker);
  if (!moved) return;
  if (IsFinal(job.state)) observer.OnJobFinished(job);
  LogInfo("job moved", {{"project", job.key.project},
                        {"job", job.key.id},
                        {"from", JobStateName(old_state)},
                        {"to", JobStateName(job.state)},
                        {"reason", QueueReasonName(job.queue_reason)},
                        {"worker", job.lease.holder()},
                        {"lease_epoch", job.lease.epoch}});
}

const Job* QueueState::AnyJobThat(const std::function<bool(const Job&)>& matches) const {
  for (const auto& [key, entry] : jobs_) {
    if (matches(entry.job)) return &entry.job;
  }
  for (const auto& [key, job] : jobs_in_creation_) {
    if (matches(job)) return &job;
  }
  return nullptr;
}

uint64_t QueueState::TakeSequences(size_t n) {
  return std::exchange(next_sequence_, next_sequence_ + n);
}

void QueueState::BeginCreation(std::span<const Job> created) {
  for (const Job& job : created) {
    jobs_in_creation_.emplace(job.key, job);
    CountRecord(job.key.project, 0, BytesOf(job));
    for (const BlobRef& blob : BlobsOf(job)) NoteReference(blob);
  }
}

void QueueState::EndCreation(std::span<const Job> created) {
  for (const Job& job : created) {
    jobs_in_creation_.erase(job.key);
    CountRecord(job.key.project, BytesOf(job), 0);
  }
}

void QueueState::AddJob(const Job& job, const JobEvent& event) {
  JobEntry& entry = jobs_[job.key];
  entry.job = job;
  entry.progress_stored_at = clock.Now();
  entry.log.Append(event, MachineNow());
  job_order_.emplace(job.create_sequence, job.key);
  if (!job.parts.empty()) split_jobs_.insert(job.key);
  Reindex(entry, std::nullopt);
  rows_.Changed(job.key, wake_);
}

void QueueState::RemoveJob(JobEntry& entry) {
  const Job& job = entry.job;
  const ResourceKey key = job.key;
  const uint64_t create_sequence = job.create_sequence;
  index_.LeaveState(job, job.state);
  CountRecord(key.project, entry.record_bytes, 0);
  job_order_.erase(create_sequence);
  if (entry.log.n_watchers() > 0) deleted_jobs_.emplace(create_sequence, std::move(entry));
  rows_.Deleted(key, wake_);
  jobs_.erase(key);
}

void QueueState::RequestStop(JobEntry& entry, StopCause cause) {
  entry.job.stop = cause;
  entry.stop_requested_at = clock.Now();
  for (const std::string& worker : entry.job.lease.members) Wake(worker);
}

void QueueState::NoteDeadlines(JobEntry& entry) {
  const auto note = [&](absl::Time deadline, JobEntry::Deadline& noted) {
    mu.AssertHeld();
    if (deadline == noted.wall) return;
    const auto [begin, end] = job_deadlines_.equal_range(noted.steady);
    const auto old = std::find_if(
        begin, end, [&](const auto& noted_job) { return noted_job.second == entry.job.key; });
    if (old != end) job_deadlines_.erase(old);
    noted.wall = deadline;
    if (deadline == absl::InfiniteFuture()) return;
    // From here on jumps of the wall clock do not move it.
    noted.steady = clock.Now() + (deadline - clock.WallNow());
    job_deadlines_.emplace(noted.steady, entry.job.key);
  };
  const bool is_final = IsFinal(entry.job.state);
  note(is_final ? absl::InfiniteFuture() : entry.job.start_by, entry.start_by);
  note(is_final ? absl::InfiniteFuture() : entry.job.end_by, entry.end_by);
}

void QueueState::CountRecord(const std::string& project, uint64_t before, uint64_t now) {
  uint64_t& bytes = record_bytes_[project];
  bytes += now - before;
  all_record_bytes_ += now - before;
  if (bytes == 0) record_bytes_.erase(project);
}

void QueueState::Reindex(JobEntry& entry, std::optional<JobState> old_state) {
  const uint64_t bytes = BytesOf(entry.job);
  CountRecord(entry.job.key.project, std::exchange(entry.record_bytes, bytes), bytes);
  NoteDeadlines(entry);
  ReindexState(entry, old_state);
  const Job& job = entry.job;
  if (TraitsOf(job).has_part_leases) ReindexParts(entry);
  if (job.awaits_poses && !IsFinal(job.state)) {
    jobs_awaiting_poses_.insert(job.key);
  } else {
    jobs_awaiting_poses_.erase(job.key);
  }
  if (!TraitsOf(job).makes_scene) return;
  const ResourceKey scene = {job.key.project, job.pose.scene};
  if (!IsFinal(job.state)) {
    promised_scenes_.insert(scene);
  } else if (old_state.has_value() && !IsFinal(*old_state)) {
    promised_scenes_.erase(scene);
  }
}

void QueueState::ReindexParts(JobEntry& entry) {
  const Job& job = entry.job;
  index_.Place(entry, PolicyOf(job).WantsWorker(job));
  for (uint32_t part = 0; part < PolicyOf(job).PartsOf(job); ++part) {
    const LeaseKey lease{job.key, part};
    if (PolicyOf(job).LeaseOf(job, part).worker.empty()) {
      lease_deadlines_.erase(lease);
    } else {
      lease_deadlines_.emplace(lease, clock.Now() + options.lease_ttl);  // unless it has one
    }
  }
}

void QueueState::ReindexState(JobEntry& entry, std::optional<JobState> old_state) {
  const Job& job = entry.job;
  const SteadyTime now = clock.Now();
  const bool waited =
      std::exchange(entry.waits, job.state == JobState::kQueued && !WaitsForJobs(job));
  index_.Place(entry, entry.waits);
  if (waited && !entry.waits) {
    index_.EndWait(entry);
    if (HoldsLease(job.state)) observer.OnJobLeftQueue(now - entry.queued_at);
  } else if (!waited && entry.waits) {
    index_.BeginWait(entry, now);
  }
  if (old_state == job.state) return;
  if (old_state.has_value()) index_.LeaveState(job, *old_state);
  index_.EnterState(job, job.state);
  if (IsFinal(job.state)) entry.ended_at = now;
  if (!HoldsLease(job.state)) {
    lease_deadlines_.erase(lease_deadlines_.lower_bound({job.key, 0}),
                           lease_deadlines_.upper_bound({job.key, UINT32_MAX}));
  } else if (!old_state.has_value() || !HoldsLease(*old_state)) {
    for (uint32_t part = 0; part < PolicyOf(job).PartsOf(job); ++part) {
      lease_deadlines_[{job.key, part}] = now + options.lease_ttl;
    }
  }
}

void QueueState::RenewLease(const LeaseKey& lease) {
  const auto found = lease_deadlines_.find(lease);
  if (found != lease_deadlines_.end()) found->second = clock.Now() + options.lease_ttl;
}

void QueueState::SetAside(JobEntry& entry, SteadyTime until) {
  entry.aside.until = until;
  jobs_aside_.emplace(until, entry.job.key);
}

void QueueState::EndAsides() {
  while (!jobs_aside_.empty() && jobs_aside_.begin()->first <= clock.Now()) {
    jobs_aside_.erase(jobs_aside_.begin());
    WakeAllWorkers();
  }
}

void QueueState::SetLacking(const ResourceKey& key, std::vector<JobInput> lacking) {
  JobEntry* const entry = FindEntry(key);
  if (entry == nullptr || lacking.empty()) {
    lacking_jobs_.erase(key);
  } else {
    lacking_jobs_.insert(key);
  }
  if (entry != nullptr) entry->lacking = std::move(lacking);
}

std::optional<ResourceKey> QueueState::TakeDueDeadline() {
  const auto first = job_deadlines_.begin();
  if (first == job_deadlines_.end() || first->first > clock.Now()) return std::nullopt;
  return std::move(job_deadlines_.extract(first).mapped());
}

void QueueState::ReserveWorker(const std::string& worker, const ResourceKey& job) {
  reserved_workers_[worker] = {job, clock.Now() + options.lease_ttl};
}

void QueueState::KeepReserved(const ResourceKey& job) {
  for (auto& [worker, kept] : reserved_workers_) {
    if (kept.job == job) kept.until = clock.Now() + options.lease_ttl;
  }
}

void QueueState::FreeWorkersOf(const ResourceKey& job) {
  std::erase_if(reserved_workers_, [&](const auto& kept) { return kept.second.job == job; });
}

void QueueState::SetDrained(const std::string& worker, bool drained) {
  if (drained) {
    drained_workers_.insert(worker);
  } else {
    drained_workers_.erase(worker);
  }
}

void QueueState::TakeSettings(const ProjectRecord& settings) {
  ProjectRecord& record = projects_[settings.project];
  record.project = settings.project;
  record.quota = settings.quota;
  record.retention = settings.retention;
}

bool QueueState::Meter(const std::string& project, int64_t day, double seconds) {
  if (projects_.size() >= kMaxProjectRecords && !projects_.contains(project)) return false;
  ProjectRecord& record = projects_[project];
  record.project = project;
  if (record.day != day) record.device_seconds = 0;
  record.day = day;
  record.device_seconds += seconds;
  return true;
}

void QueueState::ForgetMeters(int64_t today, const std::set<std::string>& kept) {
  std::erase_if(projects_, [&](const auto& item) {
    const auto& [project, record] = item;
    return record.day != today && !HasSettings(record) && !kept.contains(project);
  });
}

uint64_t QueueState::RecordBytesOf(const std::string& project) const {
  const uint64_t* const bytes = FindValue(record_bytes_, project);
  return bytes == nullptr ? 0 : *bytes;
}

size_t QueueState::GrantsInProgress(const std::string& project) const {
  const size_t* const n = FindValue(grants_in_progress_, project);
  return n == nullptr ? 0 : *n;
}

absl::Status QueueState::RequireBlobs(const std::vector<BlobRef>& needed) {
  std::vector<std::string> names;
  for (const BlobRef& blob : blobs.FindMissing(needed)) names.push_back(BlobName(blob));
  return names.empty() ? absl::OkStatus() : BlobsMissingError(names);
}

}  // namespace nerf
