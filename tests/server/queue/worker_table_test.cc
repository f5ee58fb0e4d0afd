#include "server/queue/leases/worker_table.h"

#include "common/access_reason.h"
#include "common/error_reason.h"
#include "server/queue/kinds/render_work.h"
#include "server/queue/leases/grant_policy.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

WorkerDescription WorkerTableDescribe(const std::string& id) {
  return {id, "session-1", "cpu", "2 threads", "0.1.0", "host", {"ngp"}};
}

TEST(WorkerTableTest, StatesFollowWhatIsHeard) {
  FakeClock clock;
  WorkerTable table(&clock, absl::Seconds(30));
  const auto connection = table.Connect(WorkerTableDescribe("worker-a"));
  ASSERT_THAT(connection, IsOk());
  EXPECT_EQ(table.List()->at(0).state, WorkerState::kIdle);
  EXPECT_TRUE(table.Heard("worker-a", *connection, false, ResourceKey{"default", "one"}));
  EXPECT_EQ(table.List()->at(0).state, WorkerState::kBusy);
  EXPECT_EQ(table.WorkerOf({"default", "one"}), "worker-a");
  EXPECT_TRUE(table.Heard("worker-a", *connection, true, std::nullopt));
  EXPECT_EQ(table.List()->at(0).state, WorkerState::kDraining);
  clock.Advance(absl::Seconds(31));
  EXPECT_EQ(table.List()->at(0).state, WorkerState::kLost);
}

TEST(WorkerTableTest, ReadersShareAListUntilAWorkerChangesOrItIsOld) {
  FakeClock clock;
  WorkerTable table(&clock, absl::Seconds(30));
  const auto connection = table.Connect(WorkerTableDescribe("worker-a"));
  const WorkerList before = table.List();
  EXPECT_TRUE(table.Heard("worker-a", *connection, false, std::nullopt));
  EXPECT_EQ(table.List(), before);
  EXPECT_TRUE(before->at(0).Offers("ngp"));
  EXPECT_TRUE(table.Heard("worker-a", *connection, false, ResourceKey{"default", "one"}));
  EXPECT_EQ(table.List()->at(0).job, (ResourceKey{"default", "one"}));
  EXPECT_FALSE(before->at(0).job.has_value());
  table.SetDrained("worker-a", true);
  EXPECT_TRUE(table.List()->at(0).drained);
  table.Disconnect("worker-a", *connection);
  EXPECT_FALSE(table.List()->at(0).connected);
  const WorkerList last = table.List();
  clock.Advance(WorkerTable::kListAge);
  EXPECT_NE(table.List(), last);
}

TEST(WorkerTableTest, NewerConnectionMakesTheOlderOneStale) {
  FakeClock clock;
  WorkerTable table(&clock, absl::Seconds(30));
  const auto first = table.Connect(WorkerTableDescribe("worker-a"));
  const auto second = table.Connect(WorkerTableDescribe("worker-a"));
  EXPECT_FALSE(table.Heard("worker-a", *first, false, std::nullopt));
  EXPECT_TRUE(table.Heard("worker-a", *second, false, ResourceKey{"default", "one"}));
  table.Disconnect("worker-a", *first);
  EXPECT_TRUE(table.List()->at(0).connected);
  table.Disconnect("worker-a", *second);
  EXPECT_FALSE(table.List()->at(0).connected);
  EXPECT_FALSE(table.WorkerOf({"default", "one"}).has_value());
  EXPECT_EQ(table.List()->size(), 1u);
}

TEST(WorkerTableTest, OlderOfTwoProcessesWithOneIdIsRefusedForGood) {
  FakeClock clock;
  WorkerTable table(&clock, absl::Seconds(30));
  WorkerDescription older = WorkerTableDescribe("worker-a"),
                    newer = WorkerTableDescribe("worker-a");
  newer.session = "session-2";
  const auto first = table.Connect(older);
  EXPECT_THAT(table.Connect(older), IsOk()) << "its network came back";
  const auto second = table.Connect(newer);
  ASSERT_THAT(second, IsOk());
  EXPECT_FALSE(table.Heard("worker-a", *first, false, std::nullopt));
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(table.Connect(older),
                FailsWith(absl::StatusCode::kFailedPrecondition, reason::kWorkerReplaced));
  }
  EXPECT_TRUE(table.Heard("worker-a", *second, false, std::nullopt)) << "it stays";
}

TEST(WorkerTableTest, WorkerThatSaidThatItLeavesIsForgottenWithItsStream) {
  FakeClock clock;
  WorkerTable table(&clock, absl::Seconds(30));
  const auto first = table.Connect(WorkerTableDescribe("worker-a"));
  EXPECT_TRUE(table.Heard("worker-a", *first, /*draining=*/true, std::nullopt));
  EXPECT_EQ(table.List()->size(), 1u);
  table.Disconnect("worker-a", *first);
  EXPECT_TRUE(table.List()->empty());

  // The stream's last message may be handled after its end.
  const auto second = table.Connect(WorkerTableDescribe("worker-a"));
  table.Disconnect("worker-a", *second);
  EXPECT_EQ(table.List()->size(), 1u);
  EXPECT_TRUE(table.Heard("worker-a", *second, /*draining=*/true, std::nullopt));
  EXPECT_TRUE(table.List()->empty());
}

TEST(WorkerTableTest, WorkerThatWentSilentIsLostForSomeHoursAndThenForgotten) {
  FakeClock clock;
  WorkerTable table(&clock, absl::Seconds(30));
  table.Disconnect("worker-a", *table.Connect(WorkerTableDescribe("worker-a")));
  clock.Advance(WorkerTable::kForgetAfter);
  ASSERT_EQ(table.List()->size(), 1u);
  EXPECT_EQ(table.List()->at(0).state, WorkerState::kLost);
  clock.Advance(absl::Seconds(1));
  EXPECT_TRUE(table.List()->empty());
  ASSERT_THAT(table.Connect(WorkerTableDescribe("worker-b")), IsOk());
  EXPECT_EQ(table.List()->size(), 1u);
}

TEST(WorkerTableTest, HostileDescriptionsAreRefused) {
  FakeClock clock;
  WorkerTable table(&clock, absl::Seconds(30));
  EXPECT_FALSE(table.Connect(WorkerTableDescribe("../a")).ok());
  WorkerDescription description = WorkerTableDescribe("worker-a");
  description.host = std::string(257, 'x');
  description.device = "cpu\n";
  EXPECT_EQ(GetProblems(table.Connect(description).status()).size(), 2u);
  description = WorkerTableDescribe("worker-a");
  description.methods.assign(33, "ngp");
  EXPECT_FALSE(table.Connect(description).ok());
  description.methods = {"ngp\n"};
  EXPECT_FALSE(table.Connect(description).ok());
  EXPECT_TRUE(table.List()->empty());
}

TEST(WorkerDescriptionTest, WithFeaturesAndWithoutMethodsItTrainsEveryMethod) {
  WorkerDescription worker;
  EXPECT_TRUE(OffersCapability(worker.Capabilities(), "ngp"));
  EXPECT_FALSE(OffersCapability(worker.Capabilities(), kMovieCapability));
  worker.features = {"ffmpeg"};
  EXPECT_TRUE(OffersCapability(worker.Capabilities(), "ngp"));
  EXPECT_TRUE(OffersCapability(worker.Capabilities(), kMovieCapability));
  EXPECT_FALSE(OffersCapability(worker.Capabilities(), "render/ngp"));
  worker.methods = {"mlp"};
  EXPECT_FALSE(OffersCapability(worker.Capabilities(), "ngp"));
}

TEST(WorkerDescriptionTest, WhatOlderWorkersLackIsOfferedOnlyWhereItIsAnnounced) {
  const std::vector<std::string> newer = {
      "render+style/ngp",    "export+export-2/ngp",    "export+export-3/ngp", "export+export-4/ngp",
      "export+export-5/ngp", "export+export-nvdb/ngp", "ffmpeg+style",        "render+style-2/ngp"};
  WorkerDescription worker;
  const auto offers = [&](const std::string& capability) {
    return OffersCapability(worker.Capabilities(), capability);
  };
  for (const std::string& capability : newer) EXPECT_FALSE(offers(capability)) << capability;
  worker.features = {"style",    "style-2",  "export-2",   "export-3",
                     "export-4", "export-5", "export-nvdb"};
  for (const std::string& capability : newer) EXPECT_FALSE(offers(capability)) << capability;
  worker.methods = {"ngp"};
  worker.features = {"render", "export", "ffmpeg"};
  for (const std::string& capability : newer) EXPECT_FALSE(offers(capability)) << capability;
  EXPECT_TRUE(offers("render/ngp") && offers("export/ngp") && offers("ffmpeg"));
  worker.features = {"render", "export", "ffmpeg", "style", "export-2"};
  EXPECT_TRUE(offers("export+export-2/ngp") && !offers("export+export-3/ngp"));
  worker.features.insert(worker.features.end(),
                         {"export-3", "export-4", "export-5", "export-nvdb", "style-2"});
  for (const std::string& capability : newer) EXPECT_TRUE(offers(capability)) << capability;
  EXPECT_TRUE(offers("render/ngp") && offers("export/ngp") && offers("ffmpeg"));
  EXPECT_FALSE(offers("render+style/mlp"));
}

TEST(WorkerDescriptionTest, PosesOnlyIsOfferedWhateverTheMethodsAre) {
  WorkerDescription worker;
  worker.methods = {"ngp"};
  worker.features = {"poses-only", "colmap"};
  for (const std::string_view other : {"ngp", "render/ngp", "ffmpeg", "colmap+ffmpeg"}) {
    EXPECT_FALSE(OffersCapability(worker.Capabilities(), other)) << other;
  }
  EXPECT_TRUE(OffersCapability(worker.Capabilities(), kPoseCapability));
  worker.ffmpeg_version = "5.1";
  EXPECT_TRUE(OffersCapability(worker.Capabilities(), kFilmPoseCapability));
  worker.features = {"poses-only"};
  EXPECT_FALSE(OffersCapability(worker.Capabilities(), "ngp")) << "it has no COLMAP, either";
}

TEST(WorkerTableTest, MadeUpIdsTakeThePlaceOfThoseThatWereSilentLongest) {
  FakeClock clock;
  WorkerTable table(&clock, absl::Seconds(30));
  ASSERT_THAT(table.Connect(WorkerTableDescribe("stays")), IsOk());
  for (size_t i = 0; i < WorkerTable::kMaxWorkers + 10; ++i) {
    const std::string id = "w-" + std::to_string(i);
    const auto connection = table.Connect(WorkerTableDescribe(id));
    ASSERT_THAT(connection, IsOk());
    table.Disconnect(id, *connection);
    clock.Advance(absl::Milliseconds(1));
  }
  EXPECT_EQ(table.List()->size(), WorkerTable::kMaxWorkers);
  EXPECT_TRUE(table.Find("stays").has_value()) << "it is connected";
  EXPECT_FALSE(table.Find("w-0").has_value());
  EXPECT_TRUE(table.Find("w-100").has_value());
}

TEST(WorkerTableTest, NoMoreThanTheMostAreConnected) {
  FakeClock clock;
  WorkerTable table(&clock, absl::Seconds(30));
  for (size_t i = 0; i < WorkerTable::kMaxWorkers; ++i) {
    ASSERT_THAT(table.Connect(WorkerTableDescribe("w-" + std::to_string(i))), IsOk());
  }
  EXPECT_THAT(table.Connect(WorkerTableDescribe("one-more")),
              FailsWith(absl::StatusCode::kResourceExhausted, reason::kQuotaExceeded));
  EXPECT_THAT(table.Connect(WorkerTableDescribe("w-7")), IsOk()) << "again";
}

}  // namespace
}  // namespace nerf
