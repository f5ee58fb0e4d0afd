#include "server/rpc/calls/request_broker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/error_reason.h"
#include "common/mutex.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_random.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using absl::StatusCode;

// Records the messages to a worker.
class RecordingLink final : public WorkerLink {
 public:
  void SendRequest(const v1::ServerRequest& request) override {
    sent.push_back(request);
    if (on_send) on_send();
  }
  std::vector<v1::ServerRequest> sent;
  std::function<void()> on_send;
};

class RequestBrokerTest : public testing::Test {
 protected:
  std::shared_ptr<RecordingLink> Connect(const std::string& id,
                                         std::optional<ResourceKey> job = std::nullopt,
                                         bool draining = false,
                                         std::vector<std::string> features = {}) {
    const uint64_t connection =
        *workers_.Connect({id, "s", "cpu", "", "0.1", "", {}, std::move(features)});
    workers_.Heard(id, connection, draining, job);
    auto link = std::make_shared<RecordingLink>();
    broker_.Attach(id, connection, link);
    return link;
  }

  absl::StatusOr<uint64_t> Start(size_t max_bytes = 100) {
    BrokerRequest request;
    request.max_reply_bytes = max_bytes;
    request.message.mutable_validate();
    return broker_.Start(std::move(request), [this](absl::StatusOr<BrokerReply> reply) {
      done_.push_back(std::move(reply));
    });
  }

  static v1::WorkerReply Reply(const std::string& id, const std::string& chunk, bool last) {
    v1::WorkerReply reply;
    reply.set_request_id(id);
    reply.set_chunk(chunk);
    reply.set_last(last);
    return reply;
  }

  FakeClock clock_;
  FakeRandom random_;
  WorkerTable workers_{&clock_, absl::Seconds(30)};
  Executor executor_;
  RequestBroker broker_{&workers_, &executor_, &random_};
  std::vector<absl::StatusOr<BrokerReply>> done_;
};

TEST_F(RequestBrokerTest, IdleWorkerIsPreferredAndLeastLoadedOneAmongEquals) {
  auto busy = Connect("busy", ResourceKey{"default", "j"});
  auto draining = Connect("draining", std::nullopt, true);
  auto idle_a = Connect("idle-a"), idle_b = Connect("idle-b");
  for (int i = 0; i < 4; ++i) ASSERT_THAT(Start(), IsOk());
  EXPECT_EQ(idle_a->sent.size(), 2u);
  EXPECT_EQ(idle_b->sent.size(), 2u);
  EXPECT_EQ(busy->sent.size() + draining->sent.size(), 0u);
}

TEST_F(RequestBrokerTest, NobodyDrainingOrLostIsAsked) {
  Connect("draining", std::nullopt, true);
  absl::Status refused = Start().status();
  EXPECT_THAT(refused, FailsWith(StatusCode::kUnavailable, reason::kNoWorker));
  EXPECT_EQ(refused.message(), "no worker is connected");
  Connect("drained");
  workers_.SetDrained("drained", true);
  refused = Start().status();
  EXPECT_THAT(refused, FailsWith(StatusCode::kUnavailable, reason::kNoWorker));
  EXPECT_EQ(refused.message(), "worker drained is drained, and no other one is connected");
  Connect("old");
  clock_.Advance(absl::Seconds(31));
  EXPECT_THAT(Start(), FailsWith(StatusCode::kUnavailable, reason::kNoWorker));
  EXPECT_TRUE(done_.empty());
}

TEST_F(RequestBrokerTest, RequestsThatNeedAFeatureGoToAWorkerThatHasIt) {
  const auto start = [&](std::optional<std::string> worker) {
    BrokerRequest request;
    request.worker = std::move(worker);
    request.feature = "style";
    request.message.mutable_render();
    return broker_.Start(std::move(request), [](absl::StatusOr<BrokerReply>) {});
  };
  const auto old = Connect("old");
  const absl::Status refused = start(std::nullopt).status();
  EXPECT_THAT(refused, FailsWith(StatusCode::kUnavailable, reason::kNoWorker));
  EXPECT_EQ(refused.message(),
            "worker old of version 0.1 lacks the feature style, which this "
            "needs: install a newer nerf-worker");
  EXPECT_EQ(start("old").status().message(), refused.message());
  EXPECT_EQ(start("gone").status().message(), "the job's worker is not connected");
  const auto busy = Connect("busy", ResourceKey{"default", "j"}, false, {"style"});
  EXPECT_THAT(start(std::nullopt), IsOk());
  EXPECT_THAT(start("busy"), IsOk());
  EXPECT_EQ(busy->sent.size(), 2u);
  EXPECT_TRUE(old->sent.empty());
}

TEST_F(RequestBrokerTest, PiecesOfStrangersAndOfUnknownRequestsAreDropped) {
  auto link = Connect("w");
  auto other = Connect("other");
  ASSERT_THAT(Start(), IsOk());
  RecordingLink& asked = link->sent.empty() ? *other : *link;
  RecordingLink& not_asked = link->sent.empty() ? *link : *other;
  const std::string id = asked.sent[0].request_id();
  broker_.HandleReply(&not_asked, Reply(id, "forged", true));
  for (const std::string& bad : {std::string(), id + "1", std::string("q-0"), id.substr(0, 4)}) {
    broker_.HandleReply(&asked, Reply(bad, "lost", true));
  }
  EXPECT_TRUE(done_.empty());
  broker_.HandleReply(&asked, Reply(id, "ab", false));
  broker_.HandleReply(&asked, Reply(id, "c", true));
  broker_.HandleReply(&asked, Reply(id, "again", true));
  ASSERT_EQ(done_.size(), 1u);
  ASSERT_THAT(done_[0], IsOk());
  EXPECT_EQ(done_[0]->bytes, "abc");
}

// Two streams of one worker are open, and the older one's first message is handled last.
TEST_F(RequestBrokerTest, LinkOfAnOlderConnectionThatComesLateIsNotUsed) {
  auto newer = Connect("w");
  auto older = std::make_shared<RecordingLink>();
  broker_.Attach("w", 0, older);
  ASSERT_THAT(Start(), IsOk());
  EXPECT_EQ(newer->sent.size(), 1u);
  broker_.Detach("w", older.get());
  EXPECT_THAT(Start(), IsOk());
  EXPECT_TRUE(older->sent.empty());
  EXPECT_TRUE(done_.empty());
}

TEST_F(RequestBrokerTest, NewerLinkOfAWorkerFailsWhatTheOlderOwed) {
  Connect("w");
  ASSERT_THAT(Start(), IsOk());
  auto newer = Connect("w");
  ASSERT_EQ(done_.size(), 1u);
  EXPECT_THAT(done_[0], FailsWith(StatusCode::kUnavailable, reason::kWorkerLost));
  ASSERT_THAT(Start(), IsOk());
  EXPECT_EQ(newer->sent.size(), 1u);
}

TEST_F(RequestBrokerTest, DetachOfAReplacedLinkLeavesTheNewerOneAlone) {
  auto older = Connect("w");
  auto newer = Connect("w");
  broker_.Detach("w", older.get());
  ASSERT_THAT(Start(), IsOk());
  EXPECT_EQ(newer->sent.size(), 1u);
}

TEST_F(RequestBrokerTest, CancelIsToldToTheWorkerOnce) {
  auto link = Connect("w");
  const auto number = Start();
  ASSERT_THAT(number, IsOk());
  broker_.Cancel(*number, absl::CancelledError("gone"));
  broker_.Cancel(*number, absl::CancelledError("gone"));
  ASSERT_EQ(done_.size(), 1u);
  EXPECT_THAT(done_[0], StatusIs(StatusCode::kCancelled));
  ASSERT_EQ(link->sent.size(), 2u);
  EXPECT_TRUE(link->sent[1].cancel());
  EXPECT_EQ(link->sent[1].request_id(), link->sent[0].request_id());
}

TEST_F(RequestBrokerTest, TimerRunsFromWhenTheRequestIsOutUntilItEnds) {
  auto link = Connect("w");
  size_t n_timers_when_sent = 99;
  link->on_send = [&] { n_timers_when_sent = executor_.n_timers(); };
  ASSERT_THAT(Start(), IsOk());
  EXPECT_EQ(n_timers_when_sent, 0u) << "its cancel could go out before it";
  EXPECT_EQ(executor_.n_timers(), 1u);
  link->on_send = nullptr;
  broker_.HandleReply(link.get(), Reply(link->sent[0].request_id(), "x", true));
  EXPECT_EQ(executor_.n_timers(), 0u);
  const auto cancelled = Start();
  broker_.Cancel(*cancelled, absl::CancelledError("gone"));
  EXPECT_EQ(executor_.n_timers(), 0u);
  ASSERT_THAT(Start(), IsOk());
  broker_.Detach("w", link.get());
  EXPECT_EQ(executor_.n_timers(), 0u);
}

// As an in-process worker would.
TEST_F(RequestBrokerTest, AnswerThatComesWhileTheRequestIsSentLeavesNoTimer) {
  auto link = Connect("w");
  link->on_send = [&] {
    broker_.HandleReply(link.get(), Reply(link->sent[0].request_id(), "x", true));
  };
  ASSERT_THAT(Start(), IsOk());
  EXPECT_EQ(done_.size(), 1u);
  EXPECT_EQ(executor_.n_timers(), 0u);
}

TEST_F(RequestBrokerTest, WorkerThatOwesTooMuchIsNotAskedForMore) {
  Connect("w");
  int accepted = 0;
  absl::StatusOr<uint64_t> last = 0;
  while ((last = Start()).ok() && accepted < 1000) ++accepted;
  EXPECT_THAT(last, FailsWith(StatusCode::kResourceExhausted, reason::kQueueFull));
  EXPECT_EQ(accepted, 64);
}

}  // namespace
}  // namespace nerf
