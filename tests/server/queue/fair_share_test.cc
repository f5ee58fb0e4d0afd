// Which project and which of its jobs gets the next free worker.
#include "server/queue/leases/grant_policy.h"

#include <map>

#include "common/error_reason.h"
#include "tests/testing/queue_harness.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

TEST(FairShareTest, FewestJobsAtWorkFirstThenTheLongestWaitSinceAGrant) {
  FairShare share;
  using Names = std::vector<std::string>;
  EXPECT_EQ(share.Order({{"a", 2}, {"b", 0}, {"c", 1}}), (Names{"b", "c", "a"}));
  EXPECT_EQ(share.Order({{"a", 0}, {"b", 0}}), (Names{"a", "b"}));
  share.Granted("a");
  EXPECT_EQ(share.Order({{"a", 0}, {"b", 0}}), (Names{"b", "a"}));
  share.Granted("b");
  EXPECT_EQ(share.Order({{"a", 0}, {"b", 0}}), (Names{"a", "b"}));
}

TEST(FairShareTest, GrantsOfLongAgoCountAsNone) {
  FairShare share;
  for (size_t i = 0; i < FairShare::kMaxProjects + 10; ++i) {
    share.Granted("p" + std::to_string(i));
  }
  EXPECT_EQ(share.n_projects(), FairShare::kMaxProjects);
  using Names = std::vector<std::string>;
  EXPECT_EQ(share.Order({{"p10", 0}, {"p9", 0}, {"new", 0}}), (Names{"new", "p9", "p10"}));
}

class GrantOrderTest : public testing::Test {
 protected:
  GrantOrderTest() : harness_(nullptr, WithProjects({"default", "team"})) { harness_.AddScene(); }

  static QueueOptions WithProjects(std::set<std::string> projects) {
    QueueOptions options;
    options.projects = std::move(projects);
    return options;
  }
  void Create(const std::string& id, int priority = 0, const std::string& project = "default") {
    JobSpec spec = harness_.Spec(id);
    spec.project = project;
    spec.priority = priority;
    ASSERT_THAT(harness_.queue->Create(spec), IsOk());
  }
  // The job that the next free worker is granted.
  std::string Next() {
    held_ = harness_.Grant("worker-" + std::to_string(++n_workers_));
    return held_.job.id;
  }

  QueueHarness harness_;
  LeaseRef held_;
  int n_workers_ = 0;
};

TEST_F(GrantOrderTest, HighestPriorityFirstThenTheOldest) {
  Create("low", -5);
  Create("first");
  Create("high", 7);
  Create("second");
  EXPECT_EQ(harness_.queue->PlaceOf(harness_.Get("second")).n_ahead, 2u);
  EXPECT_EQ(harness_.queue->PlaceOf(harness_.Get("low")).n_ahead, 3u);
  EXPECT_EQ(Next(), "high");
  EXPECT_EQ(Next(), "first");
  EXPECT_EQ(Next(), "second");
  EXPECT_EQ(Next(), "low");
}

TEST_F(GrantOrderTest, ChangedPriorityCountsFromThenOnAlsoAfterARestart) {
  Create("one");
  Create("two");
  Create("three");
  JobUpdate update;
  update.priority = 1;
  ASSERT_THAT(harness_.queue->Update(QueueHarness::Key("three"), update), IsOk());
  EXPECT_EQ(Next(), "three");
  ASSERT_THAT(harness_.queue->Update(QueueHarness::Key("two"), update), IsOk());
  harness_.Restart();
  EXPECT_EQ(Next(), "two");
  EXPECT_EQ(Next(), "one");
}

TEST_F(GrantOrderTest, ProjectWithALongQueueDelaysAnothersFirstJobByOneSlotAtMost) {
  SceneSpec scene;
  scene.project = "team";
  scene.id = "scene";
  scene.files = {{"transforms_train.json", QueueHarness::Blob("json")}};
  ASSERT_THAT(harness_.scenes->Create(scene), IsOk());
  for (int i = 0; i < 200; ++i) Create("j" + std::to_string(i), 100);
  EXPECT_EQ(Next(), "j0");
  EXPECT_EQ(Next(), "j1");
  Create("mine", 0, "team");
  Create("mine-too", 0, "team");
  Create("mine-last", 0, "team");
  EXPECT_EQ(Next(), "mine");
  EXPECT_EQ(Next(), "mine-too");
  EXPECT_EQ(Next(), "j2") << "both have two at work, and this one waits longer";
  EXPECT_EQ(Next(), "mine-last");
  EXPECT_EQ(Next(), "j3");
}

TEST_F(GrantOrderTest, ProjectThatFillsTheQueueTakesOneSlotAtMostFromAnothersFirstJob) {
  SceneSpec scene;
  scene.project = "team";
  scene.id = "scene";
  scene.files = {{"transforms_train.json", QueueHarness::Blob("json")}};
  ASSERT_THAT(harness_.scenes->Create(scene), IsOk());
  constexpr int kWorkers = 4, kJobs = 10'000;
  std::map<std::string, LeaseRef> held;
  for (int i = 0; i < kJobs + kWorkers; ++i) {
    Create("j" + std::to_string(i), 100);
    const std::string worker = "slot-" + std::to_string(i);
    if (i < kWorkers) held[worker] = harness_.Grant(worker);
  }
  EXPECT_THAT(harness_.queue->Create(harness_.Spec("too-many")),
              FailsWith(absl::StatusCode::kResourceExhausted, reason::kQueueFull));
  Create("mine", 0, "team");
  const auto& [worker, lease] = *held.begin();
  ASSERT_THAT(harness_.leases->Finish(lease, {}), IsOk());
  EXPECT_EQ(harness_.Grant(worker).job.id, "mine") << "the first slot that is free is its own";
  EXPECT_EQ(harness_.Get("j4").state, JobState::kQueued);
}

TEST_F(GrantOrderTest, ReserveOfTheQueueIsBounded) {
  QueueOptions options = WithProjects({});
  options.max_queued_jobs = 200;
  QueueHarness harness(nullptr, options);
  const auto create = [&](const std::string& project) {
    JobSpec spec = harness.Spec();
    spec.project = project;
    return harness.queue->Create(spec).status();
  };
  for (int i = 0; i < 300; ++i) {
    SceneSpec scene;
    scene.project = "p" + std::to_string(i);
    scene.id = "scene";
    scene.files = {{"transforms_train.json", QueueHarness::Blob("json")}};
    ASSERT_THAT(harness.scenes->Create(scene), IsOk());
  }
  for (int i = 0; i < 200; ++i) ASSERT_THAT(create("p0"), IsOk());
  for (int i = 1; i <= 100; ++i) {
    const std::string project = "p" + std::to_string(i);
    for (int j = 0; j < 2; ++j) ASSERT_THAT(create(project), IsOk()) << project;
    if (i == 1) {
      EXPECT_THAT(create(project),
                  FailsWith(absl::StatusCode::kResourceExhausted, reason::kQueueFull));
    }
  }
  EXPECT_THAT(create("p101"), FailsWith(absl::StatusCode::kResourceExhausted, reason::kQueueFull));
}

}  // namespace
}  // namespace nerf
