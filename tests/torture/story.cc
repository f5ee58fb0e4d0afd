#include "tests/torture/story.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <utility>

#include "common/error_reason.h"
#include "common/files/sha256.h"
#include "server/queue/catalogs/model_catalog.h"
#include "server/queue/catalogs/scene_catalog.h"
#include "server/queue/leases/lease_table.h"
#include "server/queue/state/job_queue.h"
#include "server/queue/upkeep/retention.h"
#include "server/store/backup.h"
#include "server/store/folder_blob_store.h"
#include "server/store/sqlite_access_store.h"
#include "server/store/sqlite_store.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_random.h"
#include "tests/torture/row_model.h"
#include "tests/torture/seeded_random.h"

namespace nerf {

std::string_view MutantName(Mutant mutant) {
  switch (mutant) {
    case Mutant::kNone:
      return "none";
    case Mutant::kSkipAllSyncs:
      return "skip every fsync";
    case Mutant::kSkipFileSyncs:
      return "skip fsync of files";
    case Mutant::kSkipFolderSyncs:
      return "skip fsync of folders";
    case Mutant::kSkipLogSyncs:
      return "skip fsync of queue.db-wal";
    case Mutant::kSkipUploadSyncs:
      return "skip fsync of uploads";
    case Mutant::kSkipAccessSyncs:
      return "skip fsync of access.db";
    case Mutant::kAcknowledgeBeforeCommit:
      return "acknowledge before the commit";
    case Mutant::kDropEvent:
      return "drop an event";
    case Mutant::kForgetCheckpoint:
      return "forget a checkpoint";
    case Mutant::kDeleteBlobsBeforeCommit:
      return "delete blobs before the commit";
  }
  return "?";
}

namespace {

namespace fs = std::filesystem;

DiskFault FaultOf(const StoryOptions& options, size_t number, const DiskOp& op, size_t n_faults) {
  const auto& fault = options.fault;
  if (!fault.has_value() || number < fault->at || n_faults >= fault->n_ops) {
    return DiskFault::kNone;
  }
  if (fault->kind == DiskFault::kShortWrite && op.kind != DiskOp::Kind::kWrite) {
    return DiskFault::kNone;
  }
  if (fault->kind == DiskFault::kNoSpace && op.kind == DiskOp::Kind::kUnlink) {
    return DiskFault::kNone;  // deleting needs no room
  }
  return fault->kind;
}

// Notes what is committed when, and commits it to the store of the moment.
class NotingStore final : public JobStore {
 public:
  NotingStore(RecordedDisk* disk, StoryRecord* record, const StoryOptions& options)
      : disk_(*disk),
        record_(*record),
        mutant_(options.mutant),
        keeps_writes_(options.keeps_writes) {
    record_.states.push_back({0, 0, 0});
  }

  void set_store(JobStore* store) { store_ = store; }
  bool needs_restart() const { return needs_restart_; }
  std::function<void(const StoreWrite&)> before_commit;

  // After a restart: the rows that the store has now are those of one of the commits that may be
  // there.
  absl::Status Adopt(SqliteStore& store) {
    const auto digest = RowModel::DigestOf(store);
    if (!digest.ok()) return digest.status();
    needs_restart_ = false;
    const size_t place = disk_.n_ops();
    bool is_known = *digest == model_.digest();
    for (const auto& [index, model] : unknown_) {
      if (is_known || model.digest() != *digest) continue;
      model_ = model;
      is_known = true;
    }
    unknown_.clear();
    record_.states.push_back({*digest, place, place});
    return is_known ? absl::OkStatus()
                    : absl::DataLossError("after a restart the store has other rows");
  }

  absl::StatusOr<StoredState> Load() override { return store_->Load(); }
  absl::StatusOr<std::optional<Job>> LoadJob(const ResourceKey& job) override {
    return store_->LoadJob(job);
  }
  absl::StatusOr<TrainingCurve> LoadCurve(const ResourceKey& job) override {
    return store_->LoadCurve(job);
  }
  bool read_only() const override { return store_->read_only(); }

  absl::Status Commit(const StoreWrite& write) override {
    if (before_commit) before_commit(write);
    RowModel next = model_;
    next.Apply(write);
    const size_t index = record_.states.size();
    record_.states.push_back({next.digest(), disk_.n_ops()});
    const absl::Status status = CommitAs(write);
    StateMark& state = record_.states[index];
    if (status.ok()) {
      state.acknowledged = disk_.n_ops();
      if (keeps_writes_) record_.writes.push_back(write);
      model_ = std::move(next);
      unknown_.clear();
    } else if (status.message().find("needs a restart") != std::string_view::npos || disk_.dead()) {
      needs_restart_ = true;
      unknown_.emplace_back(index, std::move(next));
    } else {
      state.refused = disk_.n_ops();
    }
    return status;
  }

 private:
  absl::Status CommitAs(const StoreWrite& write) {
    StoreWrite changed = write;
    switch (mutant_) {
      case Mutant::kAcknowledgeBeforeCommit: {
        const std::optional<StoreWrite> earlier = std::exchange(held_, write);
        if (earlier.has_value()) (void)store_->Commit(*earlier);
        return absl::OkStatus();
      }
      case Mutant::kDropEvent:
        if (++n_commits_ % 50 == 0) changed.events.clear();
        return store_->Commit(changed);
      case Mutant::kForgetCheckpoint:
        if (++n_commits_ % 20 == 0 && !changed.jobs.empty()) {
          auto& checkpoints = changed.jobs[0].job.checkpoints;
          if (!checkpoints.empty()) checkpoints.pop_back();
        }
        return store_->Commit(changed);
      default:
        return store_->Commit(write);
    }
  }

  RecordedDisk& disk_;
  StoryRecord& record_;
  const Mutant mutant_;
  const bool keeps_writes_;
  JobStore* store_ = nullptr;
  RowModel model_;
  // Commits since the last acknowledged one of which the store does not know whether they are
  // there.
  std::vector<std::pair<size_t, RowModel>> unknown_;
  std::optional<StoreWrite> held_;
  bool needs_restart_ = false;
  int n_commits_ = 0;
};

class Story {
 public:
  Story(const std::string& folder, const StoryOptions& options)
      : options_(options),
        folder_(folder),
        disk_(folder),
        draw_(options.seed),
        random_(options.seed),
        store_(&disk_, &record_, options) {
    record_.first_nodes = disk_.first_nodes();
    disk_.set_choose_fault([this](size_t number, const DiskOp& op) {
      if (kill_at_ != 0 && number >= kill_at_) {
        kill_at_ = 0;
        disk_.Kill();
        return DiskFault::kDead;
      }
      const DiskFault fault = FaultOf(options_, number, op, n_faults_);
      if (fault == DiskFault::kNone) return fault;
      ++n_faults_;
      record_.fault_happened = true;
      return fault;
    });
    if (options_.mutant == Mutant::kDeleteBlobsBeforeCommit) {
      store_.before_commit = [this](const StoreWrite& write) {
        for (const ResourceKey& key : write.deleted_jobs) {
          const auto job = queue_store_->LoadJob(key);
          if (!job.ok() || !job->has_value()) continue;
          for (const CheckpointRecord& checkpoint : (*job)->checkpoints) {
            (void)blobs_->Delete(checkpoint.model_blob);
          }
        }
      };
    }
  }

  StoryRecord Run() {
    Open();
    // The longest story that its jobs can need, and a tail.
    const int max_steps = options_.n_jobs * 40;
    for (int i = 0; i < max_steps && record_.violation.empty(); ++i) {
      if (n_created_ >= options_.n_jobs && i > options_.n_jobs * 20) break;
      Step();
      if (disk_.dead()) {
        Restart(/*kill=*/true);
      } else if (store_.needs_restart()) {
        Restart(/*kill=*/draw_.OneIn(2));
      }
    }
    Close();
    record_.n_jobs = n_created_;
    if (record_.violation.empty() && !record_.fault_happened && !options_.restarts &&
        n_created_ < options_.n_jobs) {
      record_.violation = fmt::format("created {} of {} jobs", n_created_, options_.n_jobs);
    }
    CheckRecorded();
    record_.ops = disk_.TakeOps();
    if (IsSkippedSync()) DropSyncs();
    return std::move(record_);
  }

 private:
  struct Leased {
    LeaseRef lease;
    uint32_t step = 0;
  };

  void Violate(const std::string& what) {
    if (record_.violation.empty()) {
      record_.violation = fmt::format("{} (before operation {})", what, disk_.n_ops());
    }
  }

  // Until it opens: a fault may hit the start, too, and then a start without one succeeds.
  void Open() {
    while (record_.violation.empty()) {
      const size_t n_faults = n_faults_;
      const absl::Status opened = TryOpen();
      if (opened.ok()) return;
      Close();
      if (disk_.dead()) {
        disk_.Revive();
        continue;
      }
      if (n_faults_ == n_faults) Violate("does not open: " + opened.ToString());
    }
  }

  absl::Status TryOpen() {
    BlobStoreOptions blob_options;
    blob_options.min_free_bytes = 0;
    blob_options.client_reserve_bytes = 0;
    blob_options.on_deleted = [this](const std::string& sha256) {
      record_.blobs.push_back({disk_.n_ops(), {sha256, 0}, false});
    };
    auto blobs = FolderBlobStore::Open(folder_, blob_options, &clock_);
    if (!blobs.ok()) return blobs.status();
    blobs_ = *std::move(blobs);
    auto store = SqliteStore::Open(folder_ + "/queue.db", random_, {.reserve_bytes = 4096});
    if (!store.ok()) return store.status();
    queue_store_ = *std::move(store);
    store_.set_store(queue_store_.get());
    const absl::Status adopted = store_.Adopt(*queue_store_);
    if (!adopted.ok()) {
      Violate(adopted.ToString());
      return absl::OkStatus();
    }
    auto access = SqliteAccessStore::Open(folder_ + "/access.db");
    if (!access.ok()) return access.status();
    access_ = *std::move(access);
    QueueOptions queue_options;
    queue_options.max_events_per_job = 12;
    queue_options.progress_store_interval = absl::Seconds(2);
    auto state = QueueState::Open(
        queue_options,
        {.clock = &clock_, .random = &random_, .store = &store_, .blobs = blobs_.get()});
    if (!state.ok()) return state.status();
    state_ = *std::move(state);
    queue_.emplace(state_.get());
    leases_.emplace(state_.get());
    retention_.emplace(state_.get());
    scenes_.emplace(state_.get());
    models_.emplace(state_.get());
    return absl::OkStatus();
  }

  void Close() {
    queue_.reset();
    leases_.reset();
    retention_.reset();
    scenes_.reset();
    models_.reset();
    state_.reset();
    access_.reset();
    queue_store_.reset();
    blobs_.reset();
  }

  void Restart(bool kill) {
    ++record_.n_restarts;
    if (kill) disk_.Kill();
    Close();
    disk_.Revive();
    Open();
  }

  ResourceKey Key(const std::string& job) const { return {"default", job}; }

  // Digests begin alike, so that blobs share folders. What was refused comes again.
  std::string Content() {
    if (!refused_.empty() && draw_.OneIn(2)) {
      std::string content = std::move(refused_.back());
      refused_.pop_back();
      return content;
    }
    while (true) {
      std::string content = fmt::format("{} {} ", options_.seed, draw_.Next());
      content.resize(content.size() + draw_.Below(1500), 'x');
      const std::string digest = Sha256Hex(content);
      if (digest[0] == '0' && digest[1] < '4') return content;
    }
  }

  std::optional<BlobRef> Store(Uploader uploader) {
    const std::string content = Content();
    const auto stored = StoreContent(content, uploader);
    if (!stored.has_value()) refused_.push_back(content);
    return stored;
  }

  std::optional<BlobRef> StoreContent(const std::string& content, Uploader uploader) {
    const BlobRef blob{Sha256Hex(content), content.size()};
    record_.contents[blob.sha256] = content;
    bool stored = false;
    if (draw_.OneIn(2)) {
      stored = blobs_->Put(content, uploader).ok();
    } else {
      const std::string id = NewUuid4(random_);
      const size_t first = draw_.Below(content.size() + 1);
      if (!blobs_->Append(id, blob, 0, content.substr(0, first), uploader).ok()) return {};
      if (draw_.OneIn(20)) return {};  // never finished
      if (!blobs_->Append(id, blob, first, content.substr(first), uploader).ok()) return {};
      stored = blobs_->Finish(id, blob, uploader).ok();
    }
    if (!stored) return {};
    record_.blobs.push_back({disk_.n_ops(), blob, true});
    return blob;
  }

  JobClaim& Claim(const std::string& job) {
    return record_.claims.emplace_back(JobClaim{.place = disk_.n_ops(), .job = job});
  }

  std::string Any(const std::set<std::string>& names) {
    auto name = names.begin();
    std::advance(name, static_cast<int64_t>(draw_.Below(names.size())));
    return *name;
  }

  void AddScene() {
    SceneSpec spec{"default", fmt::format("scene-{}", n_scenes_++), NewUuid4(random_), "", {}};
    for (size_t i = 0, n = 1 + draw_.Below(3); i < n; ++i) {
      const auto blob = Store(Uploader::kClient);
      if (!blob.has_value()) return;
      spec.files.push_back({fmt::format("images/{}.png", i), *blob});
    }
    if (scenes_->Create(spec).ok()) scene_ids_.insert(spec.id);
  }

  void CreateJob() {
    if (scene_ids_.empty()) return AddScene();
    if (n_created_ >= options_.n_jobs) return;
    JobSpec spec;
    spec.project = "default";
    spec.id = fmt::format("job-{}", n_job_ids_++);  // a refused job may be there
    spec.request_id = NewUuid4(random_);
    spec.training.scene = Any(scene_ids_);
    spec.training.config.set_method("ngp");
    if (!queue_->Create(spec).ok()) return;
    ++n_created_;
    Claim(spec.id);
    live_.insert(spec.id);
  }

  void Acquire() {
    const auto grant = leases_->Acquire({fmt::format("worker-{}", draw_.Below(3))});
    if (!grant.ok() || !grant->has_value()) return;
    const LeaseRef lease = (*grant)->lease;
    Claim(lease.job.id).epoch = lease.epoch;
    leased_.push_back({lease, (*grant)->resume.has_value() ? (*grant)->resume->step : 0});
    if (leases_->Renew(lease, WorkPhase::kRunning).ok()) Claim(lease.job.id).epoch = lease.epoch;
  }

  void Work() {
    if (leased_.empty()) return Acquire();
    const size_t index = draw_.Below(leased_.size());
    Leased& leased = leased_[index];
    const LeaseRef lease = leased.lease;
    bool is_over = false;
    switch (draw_.Below(9)) {
      case 0:
      case 1: {
        internal::JobProgress progress;
        progress.mutable_training()->set_step(leased.step + 1);
        is_over = IsFenced(leases_->ReportProgress(lease, progress).status());
        break;
      }
      case 2:
      case 3:
      case 4: {
        CheckpointRecord checkpoint;
        checkpoint.step = leased.step + 1 + static_cast<uint32_t>(draw_.Below(100));
        const auto state = Store(Uploader::kWorker), model = Store(Uploader::kWorker);
        if (!state.has_value() || !model.has_value()) return;
        checkpoint.checkpoint_blob = *state;
        checkpoint.model_blob = *model;
        checkpoint.preview_psnr = static_cast<double>(draw_.Below(30));
        const auto committed = leases_->CommitCheckpoint(lease, checkpoint);
        is_over = IsFenced(committed.status());
        if (!committed.ok()) break;
        leased.step = checkpoint.step;
        JobClaim& claim = Claim(lease.job.id);
        claim.epoch = lease.epoch;
        claim.step = checkpoint.step;
        break;
      }
      case 5: {
        const auto crashed = leases_->ReportEngineCrash(lease, "crash");
        is_over = crashed.ok() || IsFenced(crashed.status());
        if (crashed.ok()) NoteEnd(*crashed);
        break;
      }
      case 6: {
        const auto released = leases_->Release(lease);
        is_over = released.ok() || IsFenced(released.status());
        if (released.ok()) NoteEnd(*released);
        break;
      }
      default: {
        const auto finished = leases_->Finish(lease, {});
        is_over = finished.ok() || IsFenced(finished.status());
        if (finished.ok()) NoteEnd(*finished);
      }
    }
    if (is_over) leased_.erase(leased_.begin() + static_cast<ptrdiff_t>(index));
  }

  static bool IsFenced(const absl::Status& status) {
    return absl::IsFailedPrecondition(status) || absl::IsNotFound(status);
  }

  void NoteEnd(const Job& job) {
    JobClaim& claim = Claim(job.key.id);
    claim.epoch = job.lease.epoch;
    if (!IsFinal(job.state)) return;
    claim.end = job.state;
    live_.erase(job.key.id);
    ended_.insert(job.key.id);
  }

  void Client() {
    if (live_.empty()) return CreateJob();
    const std::string job = Any(live_);
    JobUpdate update;
    switch (draw_.Below(6)) {
      case 0: {
        const auto cancelled = queue_->Cancel(Key(job), draw_.OneIn(2));
        if (cancelled.ok()) NoteEnd(*cancelled);
        return;
      }
      case 1:
        (void)queue_->Pause(Key(job));
        return;
      case 2:
        (void)queue_->Resume(Key(job));
        return;
      case 3:
        update.priority = static_cast<int>(draw_.Below(5));
        (void)queue_->Update(Key(job), update);
        return;
      default:
        return CreateJob();
    }
  }

  void DeleteSomething() {
    switch (draw_.Below(4)) {
      case 0:
        if (!model_ids_.empty()) {
          const std::string model = Any(model_ids_);
          if (models_->Delete({"default", model}).ok()) model_ids_.erase(model);
        }
        return;
      case 1:
        if (scene_ids_.size() > 2) {
          const std::string scene = Any(scene_ids_);
          if (scenes_->Delete({"default", scene}).ok()) scene_ids_.erase(scene);
        }
        return;
      default:
        if (ended_.empty()) return;
        const std::string job = Any(ended_);
        Claim(job).deleting = true;
        const absl::Status deleted = queue_->Delete(Key(job));
        if (!deleted.ok()) return;
        Claim(job).deleted = true;
        ended_.erase(job);
    }
  }

  void Promote() {
    if (ended_.empty()) return;
    const ModelSpec spec{"default",
                         fmt::format("model-{}", n_models_++),
                         NewUuid4(random_),
                         "",
                         {Key(Any(ended_)), {}}};
    if (models_->Promote(spec).ok()) model_ids_.insert(spec.id);
  }

  void Upkeep() {
    switch (draw_.Below(8)) {
      case 0:
        clock_.Advance(absl::Hours(1 + static_cast<int>(draw_.Below(30))));
        NoteEndedByUpkeep();
        for (const std::string& job : ended_) Claim(job).deleting = true;
        (void)retention_->Sweep();
        break;
      case 1:
        clock_.Advance(absl::Minutes(5));
        (void)blobs_->Collect(state_->ReachableBlobs());
        break;
      default:
        clock_.Advance(absl::Seconds(1 + static_cast<int>(draw_.Below(20))));
    }
    leases_->ExpireLeases();
    NoteEndedByUpkeep();
  }

  // Jobs whose end nobody was told of, such as cancelled ones whose lease has expired.
  void NoteEndedByUpkeep() {
    for (auto job = live_.begin(); job != live_.end();) {
      const auto found = queue_->Get(Key(*job));
      if (found.ok() && IsFinal(found->state)) {
        ended_.insert(*job);
        job = live_.erase(job);
      } else {
        ++job;
      }
    }
  }

  void Access() {
    if (!tokens_.empty() && draw_.OneIn(3)) {
      const std::string id = Any(tokens_);
      record_.tokens.push_back({disk_.n_ops(), id, Presence::kUnknown});
      tokens_.erase(id);
      if (!access_->DeleteToken(id).ok()) return;
      record_.tokens.push_back({disk_.n_ops(), id, Presence::kGone});
      return;
    }
    TokenRecord token;
    token.id = fmt::format("t-{}", n_tokens_++);
    token.digest = Sha256Hex(token.id);
    token.create_time = clock_.WallNow();
    if (!access_->AddToken(token).ok()) return;
    tokens_.insert(token.id);
    record_.tokens.push_back({disk_.n_ops(), token.id, Presence::kThere});
  }

  void Backup() {
    constexpr int kMaxBackups = 2;  // each is in every cut
    if (n_backups_ == kMaxBackups) return;
    const std::string id = fmt::format("b-{}", n_backups_++);
    if (!WriteBackup(*queue_store_, *blobs_, folder_, id, access_.get()).ok()) return;
    record_.backups.push_back({disk_.n_ops(), id, Presence::kThere});
  }

  void Step() {
    const uint64_t die = draw_.Below(100);
    if (options_.restarts && draw_.OneIn(150)) return Restart(/*kill=*/draw_.OneIn(2));
    if (options_.restarts && draw_.OneIn(150)) {
      // A kill in the middle of the next call.
      kill_at_ = disk_.n_ops() + draw_.Below(12);
    }
    if (draw_.OneIn(400)) return Backup();
    if (die < 20) return Client();
    if (die < 35) return Acquire();
    if (die < 72) return Work();
    if (die < 82) return DeleteSomething();
    if (die < 85) return Promote();
    if (die < 87) return AddScene();
    if (die < 89) return Access();
    Upkeep();
  }

  // Where the recording and the real folder differ, a call of libc is not recorded.
  void CheckRecorded();
  bool IsSkippedSync() const {
    return options_.mutant >= Mutant::kSkipAllSyncs && options_.mutant <= Mutant::kSkipAccessSyncs;
  }
  void DropSyncs();

  const StoryOptions options_;
  const std::string folder_;
  StoryRecord record_;
  RecordedDisk disk_;
  SeededRandom draw_;
  FakeClock clock_;
  FakeRandom random_;
  size_t n_faults_ = 0, kill_at_ = 0;
  NotingStore store_;
  std::unique_ptr<BlobStore> blobs_;
  std::unique_ptr<SqliteStore> queue_store_;
  std::unique_ptr<SqliteAccessStore> access_;
  std::unique_ptr<QueueState> state_;
  std::optional<JobQueue> queue_;
  std::optional<LeaseTable> leases_;
  std::optional<Retention> retention_;
  std::optional<SceneCatalog> scenes_;
  std::optional<ModelCatalog> models_;
  int n_created_ = 0, n_job_ids_ = 0, n_scenes_ = 0, n_models_ = 0, n_tokens_ = 0, n_backups_ = 0;
  std::vector<std::string> refused_;
  std::set<std::string> live_, ended_, scene_ids_, model_ids_, tokens_;
  std::vector<Leased> leased_;
};

void Story::DropSyncs() {
  std::map<int, std::string> names;
  std::map<int, bool> is_folder{{0, true}};
  for (size_t i = 0; i < record_.first_nodes.size(); ++i) {
    is_folder[static_cast<int>(i)] = record_.first_nodes[i].is_folder;
  }
  int uploads = -1;
  std::set<int> uploaded;
  for (DiskOp& op : record_.ops) {
    if (op.kind == DiskOp::Kind::kMake) {
      names[op.target] = op.name;
      is_folder[op.target] = op.is_folder;
      if (op.name == "uploads") uploads = op.target;
      if (op.node == uploads) uploaded.insert(op.target);
    }
    if (op.kind != DiskOp::Kind::kSync) continue;
    const std::string& name = names[op.node];
    bool skip = options_.mutant == Mutant::kSkipAllSyncs;
    skip |= options_.mutant == Mutant::kSkipFileSyncs && !is_folder[op.node];
    skip |= options_.mutant == Mutant::kSkipFolderSyncs && is_folder[op.node];
    skip |= options_.mutant == Mutant::kSkipLogSyncs && name == "queue.db-wal";
    skip |= options_.mutant == Mutant::kSkipUploadSyncs && uploaded.contains(op.node);
    skip |= options_.mutant == Mutant::kSkipAccessSyncs && name.starts_with("access.db");
    // An operation that does nothing, so that places stay what they are.
    if (skip) op = {.kind = DiskOp::Kind::kWrite, .node = op.node};
    if (skip && is_folder[op.node]) op = {.kind = DiskOp::Kind::kUnlink, .name = "nothing"};
  }
}

void Story::CheckRecorded() {
  const auto check = [&](const auto& self, const std::string& path, int node) -> void {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(path)) {
      const std::string name = entry.path().filename().string();
      found.insert(name);
      const auto& entries = disk_.entries(node);
      if (!entries.contains(name)) return Violate("not recorded: " + entry.path().string());
      if (entry.is_directory()) self(self, entry.path().string(), entries.at(name));
    }
    if (found.size() != disk_.entries(node).size()) Violate("recorded and not there: in " + path);
  };
  check(check, folder_, 0);
}

}  // namespace

StoryRecord RunStory(const std::string& folder, const StoryOptions& options) {
  return Story(folder, options).Run();
}

StoryRecord RunWritesTogether(const std::string& folder, std::span<const StoreWrite> writes,
                              const StoryOptions& options) {
  StoryRecord record;
  record.has_blobs = false;
  record.states.push_back({0, 0, 0});
  RecordedDisk disk(folder);
  record.first_nodes = disk.first_nodes();
  size_t n_faults = 0;
  disk.set_choose_fault([&](size_t number, const DiskOp& op) {
    const DiskFault fault = FaultOf(options, number, op, n_faults);
    if (fault != DiskFault::kNone) ++n_faults;
    record.fault_happened |= fault != DiskFault::kNone;
    return fault;
  });
  FakeRandom random(options.seed);
  SeededRandom draw(options.seed);
  RowModel model;
  auto store = SqliteStore::Open(folder + "/queue.db", random, {.reserve_bytes = 4096});
  if (!store.ok() && n_faults == 0) record.violation = store.status().ToString();
  bool goes_on = store.ok();
  for (size_t i = 0; goes_on && i < writes.size();) {
    const size_t n = std::min<size_t>(1 + draw.Below(12), writes.size() - i);
    std::vector<const StoreWrite*> together;
    for (size_t k = 0; k < n; ++k) together.push_back(&writes[i + k]);
    i += n;
    const size_t began = disk.n_ops();
    const std::vector<absl::Status> statuses = (*store)->CommitAll(together);
    RowModel unknown = model;
    for (size_t k = 0; k < n; ++k) {
      unknown.Apply(*together[k]);
      if (!statuses[k].ok()) {
        // After an I/O error it is not known what is there, up to all of the writes.
        goes_on = false;
        if (n_faults == 0) record.violation = statuses[k].ToString();
        if (statuses[k].message().find("needs a restart") == std::string_view::npos) continue;
        record.states.push_back({unknown.digest(), began});
        continue;
      }
      model.Apply(*together[k]);
      record.states.push_back({model.digest(), began});
    }
    for (auto state = record.states.rbegin(); state != record.states.rend(); ++state) {
      if (state->digest != model.digest()) continue;
      state->acknowledged = std::min(state->acknowledged, disk.n_ops());
      break;
    }
  }
  if (store.ok()) store->reset();
  record.ops = disk.TakeOps();
  return record;
}

}  // namespace nerf
