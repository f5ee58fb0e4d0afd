#include "server/queue/state/watcher.h"

#include "absl/strings/escaping.h"
#include "common/messages/deterministic_bytes.h"
#include "tests/testing/queue_harness.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using absl::StatusCode;
using enum JobState;

class WatcherTest : public testing::Test {
 protected:
  WatcherTest() { harness_.AddScene(); }
  JobQueue& queue() { return *harness_.queue; }
  LeaseTable& leases() { return *harness_.leases; }
  std::unique_ptr<Watcher> Watch(const std::string& token = "") {
    return *queue().Watch({"default", "one"}, token, [this] { ++n_woken_; });
  }
  static internal::JobProgress At(uint32_t step) {
    internal::JobProgress progress;
    progress.mutable_training()->set_step(step);
    return progress;
  }
  QueueHarness harness_;
  int n_woken_ = 0;
};

TEST_F(WatcherTest, SnapshotFirstThenEveryChangeInOrderUntilTheEnd) {
  EXPECT_THAT(queue().Create(harness_.Spec("one")), IsOk());
  const auto watcher = Watch();
  const LeaseRef lease = harness_.Grant();
  EXPECT_THAT(leases().Renew(lease, WorkPhase::kRunning), IsOk());
  EXPECT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(5)), IsOk());
  EXPECT_THAT(leases().Finish(lease, {}), IsOk());
  EXPECT_FALSE(watcher->finished());
  const auto events = QueueHarness::Drain(*watcher);
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0].kind, WatchEventKind::kSnapshot);
  EXPECT_EQ(events[0].sequence, 1u);
  const JobState states[] = {kPreparing, kRunning, kRunning, kSucceeded};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(events[i + 1].sequence, static_cast<uint64_t>(i + 2));
    EXPECT_EQ(events[i + 1].job.state, states[i]) << "as it was right after the event";
  }
  EXPECT_EQ(events[3].kind, WatchEventKind::kCheckpointCommitted);
  EXPECT_EQ(events[1].job.end_time, absl::InfinitePast());
  EXPECT_NE(events[4].job.end_time, absl::InfinitePast());
  EXPECT_TRUE(watcher->finished());
  EXPECT_EQ(n_woken_, 4);
}

TEST_F(WatcherTest, EveryTokenResumesWithExactlyTheEventsAfterItAlsoAfterARestart) {
  EXPECT_THAT(queue().Create(harness_.Spec("one")), IsOk());
  std::vector<WatchEvent> all;
  {
    const auto watcher = Watch();
    const LeaseRef lease = harness_.Grant();
    EXPECT_THAT(leases().Renew(lease, WorkPhase::kRunning), IsOk());
    for (uint32_t step = 1; step <= 5; ++step) {
      harness_.clock.Advance(absl::Seconds(11));
      EXPECT_THAT(leases().ReportProgress(lease, At(step)), IsOk());
    }
    EXPECT_THAT(leases().Finish(lease, {}), IsOk());
    all = QueueHarness::Drain(*watcher);
  }
  ASSERT_EQ(all.back().sequence, 9u);
  harness_.Restart();
  for (const WatchEvent& from : all) {
    const auto watcher = Watch(from.token);
    const auto events = QueueHarness::Drain(*watcher);
    ASSERT_FALSE(events.empty());
    EXPECT_EQ(events[0].kind, WatchEventKind::kSnapshot);
    EXPECT_FALSE(events[0].gap);
    EXPECT_EQ(events[0].sequence, from.sequence);
    ASSERT_EQ(events.size(), 1 + 9 - from.sequence);
    for (size_t i = 1; i < events.size(); ++i) {
      EXPECT_EQ(events[i].sequence, from.sequence + i);
    }
    EXPECT_TRUE(watcher->finished());
  }
}

// Records all events of a job that one worker loses and the next one finishes. A watch that resumes
// at any of them repeats the record from there, starting with the job at that event.
TEST_F(WatcherTest, ResumeAtEverySequenceRepeatsWhatWasSeenAndGoesOnFromThere) {
  EXPECT_THAT(queue().Create(harness_.Spec("one")), IsOk());
  auto live = Watch();
  std::vector<WatchEvent> seen;
  const auto record = [&] {
    harness_.clock.Advance(absl::Seconds(11));
    for (WatchEvent& event : QueueHarness::Drain(*live)) seen.push_back(std::move(event));
  };
  record();
  for (uint32_t attempt = 1; attempt <= 2; ++attempt) {
    const LeaseRef lease = harness_.Grant("worker-" + std::to_string(attempt));
    record();
    EXPECT_THAT(leases().Renew(lease, WorkPhase::kRunning), IsOk());
    record();
    EXPECT_THAT(leases().ReportProgress(lease, At(10 * attempt)), IsOk());
    record();
    // The wall clock is set back, so times do not show the order.
    harness_.clock.JumpWall(-absl::Hours(1));
    // The first checkpoint has the best preview, so success keeps both.
    EXPECT_THAT(
        leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(10 * attempt, 30.0 - attempt)),
        IsOk());
    record();
    if (attempt == 2) {
      JobOutcome outcome;
      outcome.final_psnr = 30.5;
      EXPECT_THAT(leases().Finish(lease, outcome), IsOk());
    }
    harness_.clock.Advance(harness_.options.lease_ttl);
    harness_.Tick();
    record();
  }
  ASSERT_EQ(seen.size(), 11u);
  ASSERT_EQ(seen.back().job.state, kSucceeded);
  live.reset();
  for (int round = 0; round < 2; ++round) {
    for (size_t at = 0; at < seen.size(); ++at) {
      SCOPED_TRACE(testing::Message() << "round " << round << ", at " << seen[at].sequence);
      const auto events = QueueHarness::Drain(*Watch(seen[at].token));
      ASSERT_EQ(events.size(), seen.size() - at);
      EXPECT_EQ(events[0].kind, WatchEventKind::kSnapshot);
      for (size_t i = 0; i < events.size(); ++i) {
        const Job &now = events[i].job, &then = seen[at + i].job;
        EXPECT_FALSE(events[i].gap);
        EXPECT_EQ(events[i].sequence, at + i + 1);
        EXPECT_EQ(now.last_event_sequence, at + i + 1);
        EXPECT_EQ(now.state, then.state);
        EXPECT_EQ(now.queue_reason, then.queue_reason);
        EXPECT_EQ(now.attempt, then.attempt);
        EXPECT_EQ(now.lease.members, then.lease.members);
        EXPECT_TRUE(AreEqual(now.progress, then.progress));
        EXPECT_EQ(QueueHarness::Steps(now), QueueHarness::Steps(then));
        EXPECT_EQ(now.final_psnr, then.final_psnr);
        EXPECT_EQ(now.end_time, then.end_time);
      }
    }
    harness_.Restart();
  }
}

TEST_F(WatcherTest, ResumeAtTheLastEventShowsTheProgressOfNow) {
  const LeaseRef lease = harness_.Running("one");
  const std::string token = Watch()->Token();
  EXPECT_THAT(leases().ReportProgress(lease, At(7)), IsOk());
  const auto events = QueueHarness::Drain(*Watch(token));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].job.progress.training().step(), 7u);
}

TEST_F(WatcherTest, LiveProgressIsCoalescedToTheLatestAndStateChangesAreNot) {
  const LeaseRef lease = harness_.Running("one");
  const auto slow = Watch();
  EXPECT_TRUE(slow->TryNext().has_value());
  for (uint32_t step = 1; step <= 5; ++step) {
    harness_.clock.Advance(absl::Seconds(1));
    EXPECT_THAT(leases().ReportProgress(lease, At(step)), IsOk());
  }
  auto events = QueueHarness::Drain(*slow);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, WatchEventKind::kProgress);
  EXPECT_EQ(events[0].job.progress.training().step(), 5u);
  EXPECT_EQ(events[0].sequence, 3u) << "carries the last stored one";
  EXPECT_EQ(n_woken_, 5);

  EXPECT_THAT(leases().ReportProgress(lease, At(6)), IsOk());
  EXPECT_THAT(queue().Cancel(lease.job), IsOk());
  events = QueueHarness::Drain(*slow);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].job.state, kCancelling);
  EXPECT_EQ(events[0].job.progress.training().step(), 6u)
      << "a stored event carries the progress before it";
}

TEST_F(WatcherTest, ProgressIsStoredOnceInTenSeconds) {
  const LeaseRef lease = harness_.Running("one");
  const int before = harness_.memory_store.n_commits();
  for (uint32_t step = 1; step <= 30; ++step) {
    harness_.clock.Advance(absl::Seconds(1));
    EXPECT_THAT(leases().ReportProgress(lease, At(step)), IsOk());
  }
  EXPECT_EQ(harness_.memory_store.n_commits() - before, 3);
  harness_.Restart();
  EXPECT_EQ(harness_.Get("one").progress.training().step(), 30u);
}

TEST_F(WatcherTest, TokenOlderThanTheLogGivesASnapshotWithAGap) {
  QueueOptions options;
  options.max_events_per_job = 4;
  QueueHarness harness(nullptr, options);
  harness.AddScene();
  const LeaseRef lease = harness.Running("one");
  const auto watch = [&](const std::string& token) {
    return *harness.queue->Watch({"default", "one"}, token, [] {});
  };
  const std::string old_token = watch("")->Token();
  const auto stalled = watch("");
  EXPECT_TRUE(stalled->TryNext().has_value());
  for (uint32_t step = 1; step <= 6; ++step) {
    EXPECT_THAT(harness.leases->CommitCheckpoint(lease, QueueHarness::Checkpoint(step)), IsOk());
  }
  const auto events = QueueHarness::Drain(*watch(old_token));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, WatchEventKind::kSnapshot);
  EXPECT_TRUE(events[0].gap);
  EXPECT_EQ(events[0].sequence, 9u);
  // A reader that stalled meanwhile gets the same.
  const auto late = QueueHarness::Drain(*stalled);
  ASSERT_EQ(late.size(), 1u);
  EXPECT_TRUE(late[0].gap);
  EXPECT_EQ(harness.observer.n_resumed_gaps, 1);
  EXPECT_EQ(harness.observer.n_live_gaps, 1);
}

TEST_F(WatcherTest, DelayIsThatOfReadersThatHadReadEverything) {
  EXPECT_THAT(queue().Create(harness_.Spec("one")), IsOk());
  const auto prompt = Watch(), busy = Watch();
  QueueHarness::Drain(*prompt);
  EXPECT_TRUE(busy->TryNext().has_value());  // and does not ask again until below
  const LeaseRef lease = harness_.Grant();
  harness_.clock.Advance(absl::Milliseconds(20));
  QueueHarness::Drain(*prompt);
  EXPECT_EQ(harness_.observer.watch_delays, std::vector{absl::Milliseconds(20)});
  EXPECT_THAT(leases().Renew(lease, WorkPhase::kRunning), IsOk());
  EXPECT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(5)), IsOk());
  harness_.clock.Advance(absl::Milliseconds(30));
  QueueHarness::Drain(*prompt);
  EXPECT_EQ(harness_.observer.watch_delays.size(), 2u) << "of the first that it waited for";
  harness_.clock.Advance(absl::Seconds(100));
  QueueHarness::Drain(*busy);
  QueueHarness::Drain(*Watch(busy->Token()));
  EXPECT_EQ(harness_.observer.watch_delays.size(), 2u);
  EXPECT_EQ(harness_.observer.watch_delays[1], absl::Milliseconds(30));
  EXPECT_EQ(harness_.observer.n_live_gaps + harness_.observer.n_resumed_gaps, 0);
}

TEST_F(WatcherTest, TrimmedLogIsTheSameAfterARestart) {
  QueueOptions options;
  options.max_events_per_job = 4;
  QueueHarness harness(nullptr, options);
  harness.AddScene();
  const LeaseRef lease = harness.Running("one");
  for (uint32_t step = 1; step <= 6; ++step) {
    EXPECT_THAT(harness.leases->CommitCheckpoint(lease, QueueHarness::Checkpoint(step)), IsOk());
  }
  harness.Restart();
  const WatchPosition at = {"epoch-1", {"default", "one"}, 6};
  const auto kept = *harness.queue->Watch({"default", "one"}, harness.Token(at), [] {});
  EXPECT_EQ(QueueHarness::Drain(*kept).size(), 4u) << "the oldest that is kept as a snapshot";
  for (const uint64_t trimmed : {uint64_t{5}, uint64_t{0}}) {
    const WatchPosition before = {"epoch-1", {"default", "one"}, trimmed};
    const auto watcher = *harness.queue->Watch({"default", "one"}, harness.Token(before), [] {});
    const auto events = QueueHarness::Drain(*watcher);
    ASSERT_EQ(events.size(), 1u);
    EXPECT_TRUE(events[0].gap);
    EXPECT_EQ(events[0].sequence, 9u);
  }
}

TEST_F(WatcherTest, ForeignTokensAreRefused) {
  EXPECT_THAT(queue().Create(harness_.Spec("one")), IsOk());
  EXPECT_THAT(queue().Create(harness_.Spec("two")), IsOk());
  const std::string token = Watch()->Token();
  const auto watch = [&](const std::string& id, const std::string& with) {
    return queue().Watch({"default", id}, with, [] {}).status();
  };
  const auto invalid = FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid);
  EXPECT_THAT(watch("two", token), invalid) << "of another job";
  for (std::string bad : {std::string("x"), std::string("!!!"), token.substr(1), token + "A",
                          absl::WebSafeBase64Escape("6:watch1"), std::string(100'000, 'A')}) {
    EXPECT_THAT(watch("one", bad), invalid) << bad.substr(0, 50);
  }
  const auto lost = FailsWith(StatusCode::kDataLoss, reason::kEpochMismatch);
  EXPECT_THAT(watch("one", harness_.Token({"epoch-1", {"default", "one"}, 99})), lost)
      << "ahead of this store";
  harness_.memory_store.set_store_epoch("epoch-2");
  harness_.Restart();
  EXPECT_THAT(watch("one", token), lost);
  EXPECT_THAT(watch("gone", harness_.Token({"epoch-1", {"default", "gone"}, 3})), lost)
      << "nobody deleted it here";
  EXPECT_THAT(watch("gone", harness_.Token({"epoch-2", {"default", "gone"}, 3})),
              StatusIs(StatusCode::kNotFound));
}

TEST_F(WatcherTest, DestroyedWatcherIsNeverCalledAgain) {
  EXPECT_THAT(queue().Create(harness_.Spec("one")), IsOk());
  Watch().reset();
  EXPECT_THAT(queue().Cancel({"default", "one"}), IsOk());
  EXPECT_EQ(n_woken_, 0);
  EXPECT_EQ(queue().Stats().n_watchers, 0u);
}

TEST_F(WatcherTest, BookmarkTokenIsThatOfTheLastEvent) {
  const LeaseRef lease = harness_.Running("one");
  const auto watcher = Watch();
  const auto event = watcher->TryNext();
  EXPECT_EQ(watcher->Token(), event->token);
  EXPECT_THAT(leases().ReportProgress(lease, At(3)), IsOk());
  EXPECT_EQ(watcher->TryNext()->token, event->token)
      << "live progress does not change the position";
}

}  // namespace
}  // namespace nerf
