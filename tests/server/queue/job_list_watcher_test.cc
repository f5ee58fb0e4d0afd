// Readers of the list of jobs over a queue in memory.
#include "server/queue/state/job_list_watcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "common/error_reason.h"
#include "common/packed_strings.h"
#include "tests/testing/queue_harness.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class JobListWatcherTest : public testing::Test {
 protected:
  void SetUp() override { harness_.AddScene(); }

  std::unique_ptr<JobListWatcher> Watch(const std::string& token = "", size_t max_jobs = 100,
                                        const std::string& filter = "") {
    return *harness_.queue->WatchList({"default", *JobFilter::Parse(filter), max_jobs, token},
                                      [this] { ++n_woken_; });
  }
  void Create(const std::string& id) {
    ASSERT_THAT(harness_.queue->Create(harness_.Spec(id)), IsOk());
  }
  void Cancel(const std::string& id) {
    ASSERT_THAT(harness_.queue->Cancel(QueueHarness::Key(id)), IsOk());
  }
  static std::vector<std::string> Ids(const JobListBatch& batch) {
    std::vector<std::string> ids;
    for (const ListedJob& listed : batch.jobs) ids.push_back(listed.row->job().key.id);
    return ids;
  }
  static std::vector<std::string> Removed(const JobListBatch& batch) {
    std::vector<std::string> ids;
    for (const ResourceKey& key : batch.removed) ids.push_back(key.id);
    return ids;
  }
  static internal::JobProgress Progress(uint32_t step) {
    internal::JobProgress progress;
    progress.mutable_training()->set_step(step);
    progress.mutable_training()->set_loss(0.5);
    return progress;
  }

  QueueHarness harness_;
  int n_woken_ = 0;
};

TEST_F(JobListWatcherTest, FirstTheJobsThatAreThereThenWhatChanges) {
  Create("one");
  Create("two");
  const auto watcher = Watch();
  const auto first = watcher->TryNext();
  ASSERT_TRUE(first.has_value());
  EXPECT_TRUE(first->reset);
  EXPECT_TRUE(first->is_current);
  EXPECT_THAT(Ids(*first), ElementsAre("two", "one"));
  EXPECT_FALSE(watcher->TryNext().has_value());
  EXPECT_EQ(n_woken_, 0);
  Create("three");
  Cancel("one");
  EXPECT_GE(n_woken_, 2);
  const auto next = watcher->TryNext();
  ASSERT_TRUE(next.has_value());
  EXPECT_FALSE(next->reset);
  EXPECT_THAT(Ids(*next), ElementsAre("three", "one"));
  EXPECT_EQ(next->jobs[1].row->job().state, JobState::kCancelled);
  EXPECT_FALSE(watcher->TryNext().has_value());
}

TEST_F(JobListWatcherTest, SlowReaderGetsOnlyTheLatestOfEachJob) {
  const LeaseRef lease = harness_.Running("one");
  const auto watcher = Watch();
  watcher->TryNext();
  for (uint32_t step = 1; step <= 50; ++step) {
    ASSERT_THAT(harness_.leases->ReportProgress(lease, Progress(step)), IsOk());
  }
  const auto next = watcher->TryNext();
  ASSERT_TRUE(next.has_value());
  ASSERT_EQ(next->jobs.size(), 1u);
  EXPECT_EQ(next->jobs[0].row->job().progress.training().step(), 50u);
  EXPECT_FALSE(watcher->TryNext().has_value());
}

TEST_F(JobListWatcherTest, ReadersShareTheRowOfAJobUntilItChanges) {
  const LeaseRef lease = harness_.Running("one");
  const auto row_of = [](JobListWatcher& watcher) { return watcher.TryNext()->jobs.at(0).row; };
  const auto one = Watch(), two = Watch();
  const auto first = row_of(*one);
  EXPECT_EQ(row_of(*two), first);
  ASSERT_THAT(harness_.leases->ReportProgress(lease, Progress(7)), IsOk());
  const auto second = row_of(*one);
  EXPECT_NE(second, first);
  EXPECT_EQ(row_of(*two), second);
  EXPECT_EQ(row_of(*Watch()), second) << "a later reader";
  EXPECT_EQ(second->job().progress.training().step(), 7u);
  EXPECT_EQ(first->job().progress.training().step(), 0u);
}

TEST_F(JobListWatcherTest, QueuedJobComesWithItsPlace) {
  Create("one");
  Create("two");
  const auto batch = Watch()->TryNext();
  ASSERT_EQ(batch->jobs.size(), 2u);
  EXPECT_EQ(batch->jobs[0].place.n_ahead, 1u);
  EXPECT_EQ(batch->jobs[1].place.n_ahead, 0u);
}

TEST(JobRowsTest, TheRowsMadeLastAreKept) {
  JobRows rows;
  Job job;
  std::shared_ptr<const JobRow> first;
  for (size_t i = 0; i <= JobRows::kMaxRows; ++i) {
    job.key.id = "j-" + std::to_string(i);
    const auto row = rows.Get(job);
    if (i == 0) first = row;
    EXPECT_EQ(rows.Get(job), row);
  }
  EXPECT_EQ(rows.size(), JobRows::kMaxRows);
  job.key.id = "j-0";
  EXPECT_NE(rows.Get(job), first);
  rows.Clear();
  EXPECT_EQ(rows.size(), 0u);
}

TEST(JobRowTest, IsEncodedOnce) {
  int n_calls = 0;
  const auto encode = [&](const Job& job) {
    ++n_calls;
    return job.key.id + "!";
  };
  Job job;
  job.key.id = "one";
  const JobRow row(job);
  EXPECT_EQ(row.Encoded(encode), "one!");
  EXPECT_EQ(row.Encoded(encode), "one!");
  EXPECT_EQ(n_calls, 1);
}

TEST_F(JobListWatcherTest, TokensOfOtherProjectsAndFiltersAndForgedOnesAreRefused) {
  Create("one");
  const std::string token = Watch()->TryNext()->token;
  const auto open = [&](const std::string& project, const std::string& filter,
                        const std::string& with) {
    return harness_.queue->WatchList({project, *JobFilter::Parse(filter), 100, with}, [] {})
        .status();
  };
  const auto refused = FailsWith(absl::StatusCode::kInvalidArgument, reason::kFieldInvalid);
  EXPECT_THAT(open("default", "", token), IsOk());
  EXPECT_THAT(open("other", "", token), refused);
  EXPECT_THAT(open("default", "state = RUNNING", token), refused);
  const TokenSealer forger("guess");
  EXPECT_THAT(
      open("default", "",
           forger.Seal({"rows", "default", ""}, {"rows2", harness_.state->process_id(), "0", "0"})),
      refused);
  // An earlier process had another secret, or none: the list comes again.
  for (const std::string& earlier :
       {forger.Seal({"rows", "default", ""}, {"rows2", "earlier", "0", "0"}),
        absl::WebSafeBase64Escape(PackStrings({"rows1", "earlier", "default", "0", "0"}))}) {
    EXPECT_TRUE(Watch(earlier)->TryNext()->reset);
  }
}

TEST_F(JobListWatcherTest, TokenContinuesWithWhatChangedMeanwhile) {
  for (const char* id : {"one", "two", "three"}) Create(id);
  const std::string token = Watch()->TryNext()->token;
  Cancel("two");
  const auto watcher = Watch(token);
  const auto next = watcher->TryNext();
  ASSERT_TRUE(next.has_value());
  EXPECT_FALSE(next->reset);
  EXPECT_THAT(Ids(*next), ElementsAre("two"));
  EXPECT_FALSE(Watch(watcher->Token())->TryNext().has_value());
}

TEST_F(JobListWatcherTest, TokenFromBeforeARestartBeginsAnew) {
  Create("one");
  const std::string token = Watch()->TryNext()->token;
  harness_.Restart();
  const auto next = Watch(token)->TryNext();
  ASSERT_TRUE(next.has_value());
  EXPECT_TRUE(next->reset);
  EXPECT_THAT(Ids(*next), ElementsAre("one"));
}

TEST_F(JobListWatcherTest, DeletedJobsAreRemovedAndForgottenOnesBeginAnew) {
  Create("one");
  Create("two");
  const auto watcher = Watch();
  const std::string token = watcher->TryNext()->token;
  Cancel("one");
  ASSERT_THAT(harness_.queue->Delete(QueueHarness::Key("one")), IsOk());
  const auto next = watcher->TryNext();
  ASSERT_TRUE(next.has_value());
  EXPECT_THAT(Ids(*next), IsEmpty());
  EXPECT_THAT(Removed(*next), ElementsAre("one"));
  for (size_t i = 0; i <= RowLog::kMaxDeleted; ++i) {
    const std::string id = "j-" + std::to_string(i);
    Create(id);
    Cancel(id);
    ASSERT_THAT(harness_.queue->Delete(QueueHarness::Key(id)), IsOk());
  }
  const auto late = Watch(token)->TryNext();
  ASSERT_TRUE(late.has_value());
  EXPECT_TRUE(late->reset);
  EXPECT_THAT(Ids(*late), ElementsAre("two"));
  EXPECT_TRUE(watcher->TryNext()->reset) << "a reader that slept";
}

TEST_F(JobListWatcherTest, RenderJobWithTheNameOfADeletedTrainingIsARowWhereItsKindIsAskedFor) {
  const LeaseRef lease = harness_.Running("trained");
  ASSERT_THAT(harness_.leases->CommitCheckpoint(lease, QueueHarness::Checkpoint(7)), IsOk());
  ASSERT_THAT(harness_.leases->Finish(lease, {}), IsOk());
  Create("one");
  const auto all = Watch(), trainings = Watch("", 100, "kind = training");
  for (const auto& watcher : {all.get(), trainings.get()})
    EXPECT_THAT(Ids(*watcher->TryNext()), ElementsAre("one", "trained"));
  Cancel("one");
  ASSERT_THAT(harness_.queue->Delete(QueueHarness::Key("one")), IsOk());
  JobSpec spec;
  spec.project = "default";
  spec.id = "one";
  spec.kind = JobKind::kRender;
  spec.model.from_checkpoint = true;
  spec.model.source = QueueHarness::Key("trained");
  spec.render.mutable_path()->mutable_scene()->set_frames(1);
  spec.render.add_channels(v1::RGB);
  spec.render.set_images(true);
  ASSERT_THAT(harness_.queue->Create(spec), IsOk());
  auto next = all->TryNext();
  ASSERT_TRUE(next.has_value());
  EXPECT_THAT(Ids(*next), ElementsAre("one"));
  EXPECT_EQ(next->jobs[0].row->job().kind, JobKind::kRender);
  EXPECT_THAT(Removed(*next), IsEmpty());
  next = trainings->TryNext();
  ASSERT_TRUE(next.has_value());
  EXPECT_THAT(Ids(*next), IsEmpty());
  EXPECT_THAT(Removed(*next), ElementsAre("one"));
  // Others of its kind say nothing to those who follow trainings.
  spec.id = "two";
  ASSERT_THAT(harness_.queue->Create(spec), IsOk());
  EXPECT_TRUE(all->TryNext().has_value());
  EXPECT_FALSE(trainings->TryNext().has_value());
}

TEST_F(JobListWatcherTest, JobThatNoLongerMatchesIsRemoved) {
  Create("one");
  Create("two");
  const auto watcher = Watch("", 100, "state = QUEUED");
  EXPECT_THAT(Ids(*watcher->TryNext()), ElementsAre("two", "one"));
  Cancel("one");
  const auto next = watcher->TryNext();
  ASSERT_TRUE(next.has_value());
  EXPECT_THAT(Removed(*next), ElementsAre("one"));
}

TEST_F(JobListWatcherTest, OfManyJobsTheNewestComeAndOlderOnesNeverDo) {
  for (const char* id : {"one", "two", "three"}) Create(id);
  auto watcher = Watch("", 2);
  EXPECT_THAT(Ids(*watcher->TryNext()), ElementsAre("three", "two"));
  Cancel("one");
  EXPECT_FALSE(watcher->TryNext().has_value());
  watcher = Watch(watcher->Token(), 2);
  Cancel("two");
  Create("four");
  EXPECT_THAT(Ids(*watcher->TryNext()), ElementsAre("two", "four"));
}

TEST_F(JobListWatcherTest, LongListComesInBatchesAndHasATokenAtItsEnd) {
  const size_t n_jobs = 2 * JobListWatcher::kMaxBatch + 1;
  for (size_t i = 0; i < n_jobs; ++i) Create("j-" + std::to_string(i));
  const auto watcher = Watch("", 1'000);
  size_t n_seen = 0;
  while (const auto batch = watcher->TryNext()) {
    EXPECT_EQ(batch->reset, n_seen == 0);
    n_seen += batch->jobs.size();
    EXPECT_EQ(batch->is_current, n_seen == n_jobs);
    EXPECT_EQ(batch->token.empty(), n_seen < n_jobs);
  }
  EXPECT_EQ(n_seen, n_jobs);
}

TEST_F(JobListWatcherTest, EmptyListIsSaidToBeEmpty) {
  const auto watcher = Watch();
  const auto first = watcher->TryNext();
  ASSERT_TRUE(first.has_value());
  EXPECT_TRUE(first->reset);
  EXPECT_TRUE(first->is_current);
  EXPECT_FALSE(watcher->TryNext().has_value());
}

TEST_F(JobListWatcherTest, ForeignTokensAreRefused) {
  for (const char* token : {"x", "!!", "d2F0Y2gx", "AAAA"}) {
    EXPECT_THAT(harness_.queue->WatchList({"default", {}, 100, token}, [] {}).status(),
                FailsWith(absl::StatusCode::kInvalidArgument, reason::kFieldInvalid))
        << token;
  }
  EXPECT_EQ(harness_.queue->Stats().n_watchers, 0u);
}

}  // namespace
}  // namespace nerf
