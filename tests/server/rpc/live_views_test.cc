#include "server/rpc/services/live_views.h"

#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include "common/error_reason.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_random.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using absl::StatusCode;

class LiveViewsTest : public testing::Test {
 protected:
  uint64_t Connect(const std::string& id, bool shows_views = true) {
    WorkerDescription worker{id, "session-1", "cpu", "2 threads", "0.1.0", "host", {"ngp"}};
    if (shows_views) worker.features = {"views"};
    return *workers_.Connect(worker);
  }
  absl::StatusOr<std::string> Add(const std::string& project) {
    return views_.Add(project, "projects/" + project + "/models/m", {});
  }
  std::string Open(const std::string& project = "default") { return *Add(project); }
  std::string Assign(const std::string& view, const std::string& weights) {
    return views_.Assign(view, std::nullopt, weights).value_or("none");
  }

  FakeClock clock_;
  FakeRandom random_;
  prometheus::Registry registry_;
  ViewMetrics metrics_{registry_};
  WorkerTable workers_{&clock_, absl::Seconds(30)};
  LiveViews views_{&workers_, &metrics_, &random_};
};

TEST_F(LiveViewsTest, NameIsBelowWhatIsShownAndCannotBeGuessed) {
  const std::string name = Open("lab");
  EXPECT_EQ(name.rfind("projects/lab/models/m/views/", 0), 0u) << name;
  EXPECT_NE(name, Open("lab"));
  EXPECT_GE(name.size(), std::string("projects/lab/models/m/views/").size() + 36);
}

TEST_F(LiveViewsTest, ProjectMayHaveSixteenOpen) {
  std::string last;
  for (size_t i = 0; i < LiveViews::kMaxPerProject; ++i) last = Open();
  EXPECT_THAT(Add("default"), FailsWith(StatusCode::kResourceExhausted, reason::kQueueFull));
  EXPECT_THAT(Add("lab"), IsOk());
  views_.Remove(last);
  EXPECT_THAT(Add("default"), IsOk());
}

TEST_F(LiveViewsTest, ViewWithAStyleLeavesAWorkerThatDoesNotKnowIt) {
  Connect("w-old");
  const std::string view = Open();
  EXPECT_EQ(Assign(view, "a"), "w-old");
  const absl::Status refused = views_.Assign(view, std::nullopt, "a", "style").status();
  EXPECT_THAT(refused, FailsWith(StatusCode::kUnavailable, reason::kNoWorker));
  EXPECT_NE(refused.message().find("older versions do not"), absl::string_view::npos);
  ASSERT_THAT(workers_.Connect({"w-new", "s", "cpu", "", "", "", {"ngp"}, {"views", "style"}}),
              IsOk());
  EXPECT_EQ(views_.Assign(view, std::nullopt, "a", "style").value_or("none"), "w-new");
  EXPECT_EQ(Assign(view, "a"), "w-new") << "kept";
}

TEST_F(LiveViewsTest, ViewStaysWithItsWorkerAndPrefersOneThatHasTheWeights) {
  Connect("w-1");
  const std::string first = Open(), second = Open(), third = Open();
  EXPECT_EQ(Assign(first, "a"), "w-1");
  Connect("w-0");
  EXPECT_EQ(Assign(first, "a"), "w-1") << "pinned";
  EXPECT_EQ(Assign(second, "a"), "w-1") << "warm";
  EXPECT_EQ(Assign(third, "b"), "w-0") << "the least to do";
  views_.Unassign(first);
  views_.Remove(second);
  EXPECT_EQ(Assign(first, "b"), "w-0") << "anew";
}

TEST_F(LiveViewsTest, TrainingWorkerComesLastAndALostOneIsReplaced) {
  const uint64_t connection = Connect("w-1");
  workers_.Heard("w-1", connection, false, ResourceKey{"default", "job"});
  const uint64_t idle = Connect("w-2");
  const std::string view = Open();
  EXPECT_EQ(Assign(view, "a"), "w-2");
  workers_.Disconnect("w-2", idle);
  EXPECT_EQ(Assign(view, "a"), "w-1");
}

TEST_F(LiveViewsTest, WorkerThatDoesNotOfferViewsIsNotAsked) {
  Connect("w-1", /*shows_views=*/false);
  const std::string view = Open();
  EXPECT_THAT(views_.Assign(view, std::nullopt, "a"),
              FailsWith(StatusCode::kUnavailable, reason::kNoWorker));
  Connect("w-2");
  EXPECT_THAT(views_.Assign(view, "w-1", "a"),
              FailsWith(StatusCode::kUnavailable, reason::kNoWorker))
      << "the job's worker";
  EXPECT_EQ(Assign(view, "a"), "w-2");
}

TEST_F(LiveViewsTest, WorkerShowsFourAtMost) {
  Connect("w-1");
  std::string last;
  for (size_t i = 0; i < LiveViews::kMaxPerWorker; ++i) {
    last = Open();
    EXPECT_EQ(Assign(last, "a"), "w-1");
  }
  EXPECT_EQ(Assign(last, "a"), "w-1") << "it is one of the four";
  const std::string fifth = Open();
  EXPECT_THAT(views_.Assign(fifth, std::nullopt, "a"),
              FailsWith(StatusCode::kResourceExhausted, reason::kQueueFull));
  views_.Remove(last);
  EXPECT_EQ(Assign(fifth, "a"), "w-1");
}

TEST_F(LiveViewsTest, ViewThatHasEndedIsNotFound) {
  Connect("w-1");
  const std::string view = Open();
  views_.Remove(view);
  EXPECT_EQ(views_.Find(view), nullptr);
  EXPECT_THAT(views_.Assign(view, std::nullopt, "a"), StatusIs(StatusCode::kCancelled));
}

}  // namespace
}  // namespace nerf
