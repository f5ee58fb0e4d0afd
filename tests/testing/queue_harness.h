#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/files/sha256.h"
#include "server/queue/catalogs/model_catalog.h"
#include "server/queue/catalogs/scene_catalog.h"
#include "server/queue/leases/lease_table.h"
#include "server/queue/leases/worker_table.h"
#include "server/queue/state/job_queue.h"
#include "server/queue/upkeep/retention.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_random.h"
#include "tests/testing/memory_job_store.h"
#include "tests/testing/status_matchers.h"

namespace nerf {

// A queue on fakes, with shortcuts for its tests. Restart() simulates a kill and a restart on the
// same store.
class QueueHarness {
 public:
  // `groups_commits`: as a server does, with a thread that writes.
  explicit QueueHarness(JobStore* other_store = nullptr, QueueOptions queue_options = {},
                        bool groups_commits = false)
      : options(queue_options),
        store_(other_store != nullptr ? other_store : &memory_store),
        groups_commits_(groups_commits) {
    Restart();
  }

  void Restart() {
    queue.reset();
    leases.reset();
    retention.reset();
    scenes.reset();
    models.reset();
    state = *QueueState::Open(options, {.clock = &clock,
                                        .random = &random,
                                        .store = store_,
                                        .blobs = &blobs,
                                        .observer = &observer,
                                        .groups_commits = groups_commits_});
    queue.emplace(state.get());
    leases.emplace(state.get());
    retention.emplace(state.get());
    scenes.emplace(state.get());
    models.emplace(state.get());
  }

  // What the server's clockwork does.
  void Tick() {
    leases->ExpireLeases();
    EXPECT_THAT(retention->Sweep(), IsOk());
  }

  // A token that a watch of a job gets.
  std::string Token(const WatchPosition& position) const {
    return EncodeWatchToken(*state->token_sealer, position);
  }

  static v1::SceneProblem SceneProblem(const std::string& file, const std::string& field,
                                       const std::string& message) {
    v1::SceneProblem problem;
    problem.set_file(file);
    problem.set_field(field);
    problem.set_message(message);
    return problem;
  }
  static void ExpectEqual(const JobError& a, const JobError& b) {
    EXPECT_EQ(a.code, b.code);
    EXPECT_EQ(a.reason, b.reason);
    EXPECT_EQ(a.message, b.message);
    EXPECT_EQ(a.metadata, b.metadata);
    ASSERT_EQ(a.problems.size(), b.problems.size());
    for (size_t i = 0; i < a.problems.size(); ++i)
      EXPECT_EQ(a.problems[i].SerializeAsString(), b.problems[i].SerializeAsString());
  }
  static BlobRef Blob(const std::string& content) { return {Sha256Hex(content), content.size()}; }

  std::string AddScene(const std::string& id = "scene") {
    SceneSpec spec;
    spec.project = "default";
    spec.id = id;
    spec.files = {{"transforms_train.json", Blob("json")}, {"train/r_0.png", Blob("png")}};
    return scenes->Create(spec)->key.id;
  }

  JobSpec Spec(const std::string& id = "") const {
    JobSpec spec;
    spec.project = "default";
    spec.id = id;
    spec.display_name = "a job";
    spec.training.scene = "scene";
    spec.training.config.set_method("ngp");
    spec.training.config.set_samples(40e6);
    spec.training.config.set_background(v1::TrainingConfig::WHITE);
    (*spec.training.config.mutable_settings())["learning_rate"] = "0.01";
    return spec;
  }

  static ResourceKey Key(const std::string& id) { return {"default", id}; }
  // For a record that no table made.
  static std::shared_ptr<const std::vector<std::string>> CapabilitiesOf(
      const WorkerRecord& worker) {
    return std::make_shared<const std::vector<std::string>>(worker.description.Capabilities());
  }
  Job Get(const std::string& id) { return *queue->Get(Key(id)); }
  JobState StateOf(const std::string& id) { return Get(id).state; }

  // Grants the oldest queued job.
  LeaseRef Grant(const std::string& worker = "worker-a") {
    return (*leases->Acquire({worker, {}}))->lease;
  }
  // Creates a job and runs it on `worker`.
  LeaseRef Running(const std::string& id, const std::string& worker = "worker-a") {
    EXPECT_THAT(queue->Create(Spec(id)), IsOk());
    const LeaseRef lease = Grant(worker);
    EXPECT_THAT(leases->Renew(lease, WorkPhase::kRunning), IsOk());
    return lease;
  }

  static CheckpointRecord Checkpoint(uint32_t step, std::optional<double> psnr = std::nullopt) {
    CheckpointRecord checkpoint;
    checkpoint.step = step;
    checkpoint.checkpoint_blob = Blob("checkpoint " + std::to_string(step));
    checkpoint.model_blob = Blob("model " + std::to_string(step));
    checkpoint.preview_psnr = psnr;
    checkpoint.tensors = {{"table", "F16", {16, 4096, 2}}, {"scalar", "F32", {}}};
    return checkpoint;
  }

  static std::vector<uint32_t> Steps(const Job& job) {
    std::vector<uint32_t> steps;
    for (const CheckpointRecord& checkpoint : job.checkpoints) steps.push_back(checkpoint.step);
    return steps;
  }

  // All events that a watcher has now.
  static std::vector<WatchEvent> Drain(Watcher& watcher) {
    std::vector<WatchEvent> events;
    while (auto event = watcher.TryNext()) events.push_back(*std::move(event));
    return events;
  }

  struct CountingObserver final : QueueObserver {
    int n_created = 0, n_finished = 0, n_expired = 0, n_fenced = 0;
    std::vector<std::string> attempts;
    std::vector<absl::Duration> waits, watch_delays;
    int n_live_gaps = 0, n_resumed_gaps = 0;
    void OnJobCreated(const Job&) override { ++n_created; }
    void OnJobFinished(const Job&) override { ++n_finished; }
    void OnAttemptEnded(const Job&, std::string_view result) override {
      attempts.emplace_back(result);
    }
    void OnJobLeftQueue(absl::Duration waited) override { waits.push_back(waited); }
    void OnWatchEvent(absl::Duration delay) override { watch_delays.push_back(delay); }
    void OnWatchGap(bool resumed) override { ++(resumed ? n_resumed_gaps : n_live_gaps); }
    void OnLeaseExpired(const Job&) override { ++n_expired; }
    void OnFencedWrite(std::string_view) override { ++n_fenced; }
  };

  QueueOptions options;
  FakeClock clock;
  FakeRandom random;
  MemoryJobStore memory_store;
  FakeBlobIndex blobs;
  CountingObserver observer;
  std::unique_ptr<QueueState> state;
  std::optional<JobQueue> queue;
  std::optional<LeaseTable> leases;
  std::optional<Retention> retention;
  std::optional<SceneCatalog> scenes;
  std::optional<ModelCatalog> models;

 private:
  JobStore* store_;
  const bool groups_commits_;
};

inline constexpr char kRequestA[] = "0b8f2c9e-5a4d-4c3b-9a27-6f1e0d2c3b4a";
inline constexpr char kRequestB[] = "7d1e4f60-1c2b-4e5f-8a9b-0c1d2e3f4a5b";

}  // namespace nerf
