// A store that fails at its Nth commit, for every N. Acknowledged changes exist after a restart;
// refused ones leave no trace in memory.
#include <fmt/format.h>

#include "tests/testing/queue_harness.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

// Everything that readers can get from a queue, as text.
std::string FaultDescribe(QueueHarness& harness) {
  std::string text;
  const auto jobs = harness.queue->List({"default", 1000, ""});
  for (const Job& job : jobs->records) {
    text += fmt::format("{} {} {} w={} e={} a={} c={} s={} n={} p={} ", job.key.id,
                        JobStateName(job.state), QueueReasonName(job.queue_reason),
                        job.lease.holder(), job.lease.epoch, job.attempt, job.crashes_in_row,
                        job.last_event_sequence, job.checkpoints.size(), job.progress.step);
    for (const auto& checkpoint : job.checkpoints) {
      text += fmt::format("{}{},", checkpoint.step, checkpoint.promoted ? "*" : "");
    }
    text += "\n";
  }
  const auto scenes = harness.scenes->List({"default", 1000, ""});
  for (const auto& scene : scenes->records) {
    text += "scene " + scene.key.id + "\n";
  }
  const auto models = harness.models->List({"default", 1000, ""});
  for (const auto& model : models->records) {
    text += "model " + model.key.id + "\n";
  }
  const QueueStats stats = harness.queue->Stats();
  return text + fmt::format("queued={} leases={}\n", stats.n_queued, stats.n_leases);
}

// One call. Calls that do not wait for the store return OK even if the store refuses.
struct Step {
  std::function<absl::Status(QueueHarness&)> call;
  bool waits = true;
};

// All calls for two jobs, from creation to deletion. Each step also works after an earlier one
// failed and was repeated.
std::vector<Step> Story() {
  const auto lease = [](const std::string& id, uint64_t epoch) {
    return LeaseRef{{"default", id}, "worker-a", epoch};
  };
  return {
      {[](auto& h) {
        SceneSpec spec{"default", "scene", kRequestA, "", {{"a", QueueHarness::Blob("a")}}};
        return h.scenes->Create(spec).status();
      }},
      {[](auto& h) { return h.queue->Create(h.Spec("one")).status(); }},
      {[](auto& h) { return h.queue->Create(h.Spec("two")).status(); }},
      {[](auto& h) { return h.leases->Acquire({"worker-a"}).status(); }},
      {[=](auto& h) { return h.leases->Renew(lease("one", 1), WorkPhase::kRunning).status(); },
       /*waits=*/false},
      {[=](auto& h) {
        return h.leases->CommitCheckpoint(lease("one", 1), QueueHarness::Checkpoint(1)).status();
      }},
      {[=](auto& h) { return h.leases->ReportEngineCrash(lease("one", 1), "x").status(); }},
      {[](auto& h) { return h.leases->Acquire({"worker-a"}).status(); }},
      {[](auto& h) {
         h.clock.Advance(absl::Seconds(31));
         h.Tick();
         return absl::OkStatus();
       },
       /*waits=*/false},
      {[=](auto& h) { return h.leases->Renew(lease("one", 2), WorkPhase::kRunning).status(); },
       /*waits=*/false},
      {[](auto& h) {
        ModelSpec spec{"default", "model", kRequestB, "", {{"default", "one"}, {}}};
        return h.models->Promote(spec).status();
      }},
      {[=](auto& h) { return h.leases->Finish(lease("one", 2), {}).status(); }},
      {[](auto& h) {
        return h.models->Delete({"default", "model"});
      }},
      {[](auto& h) {
        return h.queue->Cancel({"default", "two"}).status();
      }},
      {[](auto& h) {
        return h.queue->Delete({"default", "two"});
      }},
      {[](auto& h) {
        return h.scenes->Delete({"default", "scene"});
      }},
  };
}

TEST(FaultTest, FailureOfAnyCommitChangesNothingAndLosesNothing) {
  const auto story = Story();
  int n_commits = 0;
  {
    QueueHarness harness;
    for (const Step& step : story) ASSERT_THAT(step.call(harness), IsOk());
    n_commits = harness.memory_store.n_commits();
  }
  ASSERT_GE(n_commits, 15);
  for (int fail_at = 1; fail_at <= n_commits; ++fail_at) {
    QueueHarness harness;
    harness.memory_store.before_commit = [&](int n) {
      return n == fail_at ? absl::UnavailableError("injected") : absl::OkStatus();
    };
    for (const Step& step : story) {
      const std::string before = FaultDescribe(harness);
      const int commits_before = harness.memory_store.n_commits();
      const absl::Status status = step.call(harness);
      const bool failed_here =
          harness.memory_store.n_commits() >= fail_at && commits_before < fail_at;
      if (failed_here) {
        if (step.waits) {
          EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable)) << "commit " << fail_at;
        } else {
          EXPECT_THAT(status, IsOk()) << "commit " << fail_at;
        }
        if (harness.memory_store.n_commits() == commits_before + 1) {
          EXPECT_EQ(FaultDescribe(harness), before) << "commit " << fail_at;
        }
        EXPECT_THAT(step.call(harness), IsOk()) << "trying again works, commit " << fail_at;
      } else {
        EXPECT_THAT(status, IsOk()) << "commit " << fail_at;
      }
      // A restarted queue returns the same as the running one.
      const std::string alive = FaultDescribe(harness);
      QueueHarness reborn(&harness.memory_store);
      EXPECT_EQ(FaultDescribe(reborn), alive);
    }
  }
}

TEST(FaultTest, ProgressGoesOnWhenTheStoreIsFull) {
  QueueHarness harness;
  harness.AddScene();
  const LeaseRef lease = harness.Running("one");
  const auto watcher = *harness.queue->Watch(lease.job, "", [] {});
  EXPECT_TRUE(watcher->TryNext().has_value());
  harness.memory_store.before_commit = [](int) { return absl::UnavailableError("full"); };
  harness.clock.Advance(absl::Seconds(20));
  JobProgress progress;
  progress.step = 9;
  EXPECT_THAT(harness.leases->ReportProgress(lease, progress), IsOkAndHolds(LeaseOrder::kTrain));
  EXPECT_EQ(watcher->TryNext()->job.progress.step, 9u);
  EXPECT_THAT(harness.queue->Cancel(lease.job), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(harness.StateOf("one"), JobState::kRunning);
  EXPECT_THAT(harness.leases->Renew(lease, WorkPhase::kRunning), IsOk());
}

}  // namespace
}  // namespace nerf
