// Many threads use one queue, one store and one blob store; meant for ThreadSanitizer. Asserts what
// must hold in any order: one effect per job, no event lost or out of order, blobs complete.
#include <atomic>
#include <thread>

#include "common/error_reason.h"
#include "common/files/sha256.h"
#include "common/ids.h"
#include "common/mutex.h"
#include "server/queue/catalogs/model_catalog.h"
#include "server/queue/catalogs/scene_catalog.h"
#include "server/queue/jobs/queue_observer.h"
#include "server/queue/leases/lease_table.h"
#include "server/queue/state/job_queue.h"
#include "server/store/blob_store.h"
#include "server/store/sqlite_store.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

constexpr int kJobs = 40;

// Counts jobs that are final. Thread-safe.
class EndedJobs final : public QueueObserver {
 public:
  void OnJobFinished(const Job&) override {
    MutexLock lock(mu_);
    ++n_;
    changed_.NotifyAll();
  }
  // False if fewer than `n` jobs have ended by the timeout.
  bool AwaitJobs(int n, absl::Duration timeout) {
    const absl::Time deadline = absl::Now() + timeout;
    MutexLock lock(mu_);
    while (n_ < n && absl::Now() < deadline) changed_.WaitFor(mu_, deadline - absl::Now());
    return n_ >= n;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  int n_ ABSL_GUARDED_BY(mu_) = 0;
};

class QueueStressTest : public testing::Test {
 protected:
  QueueStressTest() {
    store_ = *SqliteStore::Open(dir_ / "nerfd.db", random_);
    blobs_ = *BlobStore::Open(dir_ / "blobs", {}, &clock_);
    QueueOptions options;
    options.lease_ttl = absl::Milliseconds(50);  // some leases expire during the test
    options.progress_store_interval = absl::Milliseconds(5);
    options.max_events_per_job = 10'000;
    state_ = *QueueState::Open(options, {.clock = &clock_,
                                         .random = &random_,
                                         .store = store_.get(),
                                         .blobs = blobs_.get(),
                                         .observer = &ended_,
                                         .groups_commits = true});
    queue_ = std::make_unique<JobQueue>(state_.get());
    leases_ = std::make_unique<LeaseTable>(state_.get());
  }

  // A worker is refused if its job was granted to another; no other error may occur.
  static void ExpectOkOrFenced(const absl::Status& status) {
    if (status.ok()) return;
    const auto found = GetReason(status);
    ASSERT_TRUE(found.has_value()) << status;
    EXPECT_EQ(found->reason, reason::kLeaseFenced) << status;
  }

  void CancelUnlessEnded(const ResourceKey& key) {
    const auto cancelled = queue_->Cancel(key);
    EXPECT_TRUE(cancelled.ok() || IsFinal(queue_->Get(key)->state)) << cancelled.status();
  }

  // Its job may have no checkpoint yet.
  static void PromoteIfTrained(ModelCatalog& models, const ResourceKey& job) {
    const auto promoted = models.Promote({"default", "", "", "", {job, {}}});
    EXPECT_TRUE(promoted.ok() || absl::IsNotFound(promoted.status())) << promoted.status();
  }

  // Returns when the leases that are held now have expired.
  void AwaitExpiry(const std::stop_token& stop) {
    const SteadyTime expired = clock_.Now() + absl::Milliseconds(60);
    while (clock_.Now() < expired && !stop.stop_requested()) std::this_thread::yield();
  }

  void Work(const std::string& worker, std::stop_token stop) {
    SystemRandom random;
    while (!stop.stop_requested()) {
      const auto grant = leases_->Acquire({worker});
      if (!grant.ok() || !grant->has_value()) {
        std::this_thread::yield();
        continue;
      }
      const LeaseRef lease = (*grant)->lease;
      const uint32_t first = (*grant)->resume.has_value() ? (*grant)->resume->step : 0;
      for (uint32_t step = first + 1; step <= first + 3; ++step) {
        internal::JobProgress progress;
        progress.mutable_training()->set_step(step);
        ExpectOkOrFenced(leases_->ReportProgress(lease, progress).status());
        CheckpointRecord checkpoint;
        checkpoint.step = step;
        const std::string content = lease.job.id + " " + std::to_string(step);
        checkpoint.checkpoint_blob = *blobs_->Put(content);
        checkpoint.model_blob = *blobs_->Put(content + " model");
        ExpectOkOrFenced(leases_->CommitCheckpoint(lease, checkpoint).status());
      }
      uint8_t die = 0;
      random.Fill(std::span(&die, 1));
      if (die < 32) {
        ExpectOkOrFenced(leases_->ReportEngineCrash(lease, "crash").status());
      } else if (die < 64) {
        ExpectOkOrFenced(leases_->Release(lease).status());
      } else if (die < 80) {
        AwaitExpiry(stop);
        ExpectOkOrFenced(leases_->Finish(lease, {}).status());
      } else {
        ExpectOkOrFenced(leases_->Finish(lease, {}).status());
      }
    }
  }

  // Follows a job to its end over reconnects and checks the order of events.
  void Follow(const ResourceKey& key, std::stop_token stop) {
    std::string token;
    uint64_t last = 0;
    while (!stop.stop_requested()) {
      std::atomic<bool> woken{true};
      auto watcher = *queue_->Watch(key, token, [&] { woken = true; });
      for (int n = 0; n < 7 && !stop.stop_requested();) {
        const auto event = watcher->TryNext();
        if (!event.has_value()) {
          if (watcher->finished()) {
            EXPECT_TRUE(IsFinal(queue_->Get(key)->state));
            return;
          }
          while (!woken.exchange(false) && !stop.stop_requested()) std::this_thread::yield();
          continue;
        }
        ++n;
        EXPECT_FALSE(event->gap);
        if (!token.empty() && event->kind != WatchEventKind::kSnapshot) {
          EXPECT_TRUE(event->sequence == last + 1 ||
                      (event->kind == WatchEventKind::kProgress && event->sequence == last))
              << event->sequence << " after " << last;
        }
        last = event->sequence;
        token = event->token;
      }
    }
  }

  TempDir dir_;
  FakeClock clock_;  // moved by the thread that expires leases
  SystemRandom random_;
  EndedJobs ended_;
  std::unique_ptr<SqliteStore> store_;
  std::unique_ptr<BlobStore> blobs_;
  std::unique_ptr<QueueState> state_;
  std::unique_ptr<JobQueue> queue_;
  std::unique_ptr<LeaseTable> leases_;
};

TEST_F(QueueStressTest, EveryJobEndsOnceAndEveryWatcherSeesItAll) {
  SceneCatalog scenes(state_.get());
  ModelCatalog models(state_.get());
  SceneSpec scene{"default", "scene", "", "", {{"a", *blobs_->Put("a")}}};
  ASSERT_THAT(scenes.Create(scene), IsOk());
  std::atomic<int> n_woken{0};
  std::vector<std::jthread> background;
  for (const char* worker : {"worker-a", "worker-b", "worker-c"}) {
    background.emplace_back([this, worker, &n_woken](std::stop_token stop) {
      const auto subscription = leases_->SubscribeWork(worker, [&n_woken] { ++n_woken; });
      Work(worker, stop);
    });
  }
  background.emplace_back([this](std::stop_token stop) {
    while (!stop.stop_requested()) {
      leases_->ExpireLeases();
      EXPECT_THAT(blobs_->Collect(state_->ReachableBlobs()), IsOk());
      EXPECT_LE(queue_->Stats().n_queued, size_t{kJobs});
      EXPECT_GT(blobs_->Stats().n_blobs, 0u);
      clock_.Advance(absl::Milliseconds(1));
    }
  });
  std::vector<std::jthread> followers;
  for (int i = 0; i < kJobs; ++i) {
    JobSpec spec;
    spec.project = "default";
    spec.id = "job-" + std::to_string(i);
    spec.training.scene = "scene";
    const auto job = queue_->Create(spec);
    ASSERT_THAT(job, IsOk());
    if (i % 4 == 0) {
      followers.emplace_back([this, key = job->key](std::stop_token stop) { Follow(key, stop); });
    }
    if (i % 10 == 9) CancelUnlessEnded({"default", "job-" + std::to_string(i - 5)});
    if (i % 10 == 5) {
      PromoteIfTrained(models, {"default", "job-" + std::to_string(i - 5)});
    }
  }
  const bool all_final = ended_.AwaitJobs(kJobs, absl::Seconds(120));
  EXPECT_TRUE(all_final);
  if (!all_final) {
    for (std::jthread& follower : followers) follower.request_stop();
  }
  followers.clear();
  background.clear();
  EXPECT_GE(n_woken, kJobs);

  // The store holds the same, and every kept checkpoint's blob is present.
  const auto stored = store_->Load();
  ASSERT_THAT(stored, IsOk());
  ASSERT_EQ(stored->jobs.size(), static_cast<size_t>(kJobs));
  for (const Job& job : stored->jobs) {
    EXPECT_TRUE(IsFinal(job.state));
    EXPECT_EQ(job.state, queue_->Get(job.key)->state);
    for (const CheckpointRecord& checkpoint : job.checkpoints) {
      const auto content = blobs_->Read(checkpoint.checkpoint_blob, 0, 1000);
      ASSERT_THAT(content, IsOk());
      EXPECT_EQ(Sha256Hex(*content), checkpoint.checkpoint_blob.sha256);
    }
  }
}

TEST_F(QueueStressTest, WritersOfOneUploadTakeTurns) {
  constexpr char kUpload[] = "0b8f2c9e-5a4d-4c3b-9a27-6f1e0d2c3b4a";
  std::string content;
  for (int i = 0; i < 2000; ++i) content += std::to_string(i);
  const BlobRef blob{Sha256Hex(content), content.size()};
  std::vector<std::jthread> writers;
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([&] {
      for (int n = 0; n < 10'000; ++n) {
        const auto status = blobs_->GetUpload(kUpload, blob);
        ASSERT_THAT(status, IsOk());
        if (status->complete) return;
        if (status->committed_size == blob.byte_size) {
          const absl::Status finished = blobs_->Finish(kUpload, blob).status();
          EXPECT_TRUE(finished.ok() || absl::IsUnavailable(finished)) << finished.ToString();
          continue;
        }
        // An error means that another writer was faster: look at the state again.
        const auto appended = blobs_->Append(kUpload, blob, status->committed_size,
                                             content.substr(status->committed_size, 97));
        if (!appended.ok()) continue;
      }
      ADD_FAILURE() << "never finished";
    });
  }
  writers.clear();
  EXPECT_THAT(blobs_->Read(blob, 0, 1 << 20), IsOkAndHolds(content));
}

}  // namespace
}  // namespace nerf
