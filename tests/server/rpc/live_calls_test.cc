#include "server/rpc/calls/live_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/error_reason.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using testing::ElementsAre;

// Writes its name into `ended` when it is ended.
class NamedCall : public LiveCall {
 public:
  NamedCall(std::string name, std::vector<std::string>* ended)
      : name_(std::move(name)), ended_(*ended) {}

  void End(const absl::Status& status) override {
    EXPECT_THAT(status, FailsWith(absl::StatusCode::kUnavailable, reason::kDraining));
    ended_.push_back(name_);
  }

 private:
  std::string name_;
  std::vector<std::string>& ended_;
};

class LiveCallsTest : public testing::Test {
 protected:
  std::shared_ptr<NamedCall> Call(const std::string& name) {
    return std::make_shared<NamedCall>(name, &ended_);
  }

  std::vector<std::string> ended_;
  LiveCalls calls_;
};

TEST_F(LiveCallsTest, CallersLearnOfAShutdownBeforeTheirWorkersAreGone) {
  const auto early_worker = Call("early worker"), caller = Call("caller"),
             late_worker = Call("late worker"), late_caller = Call("late caller");
  calls_.AddWorker(early_worker);
  calls_.Add(caller);
  calls_.AddWorker(late_worker);
  calls_.Add(late_caller);
  calls_.EndAll();
  EXPECT_THAT(ended_, ElementsAre("caller", "late caller", "early worker", "late worker"));
}

TEST_F(LiveCallsTest, StreamsThatComeAfterTheShutdownEndAtOnce) {
  calls_.EndAll();
  calls_.Add(Call("caller"));
  calls_.AddWorker(Call("worker"));
  EXPECT_THAT(ended_, ElementsAre("caller", "worker"));
}

TEST_F(LiveCallsTest, StreamsThatAreGoneAreSkippedAndOthersEndOnce) {
  for (int i = 0; i < 1000; ++i) calls_.Add(Call("gone"));
  const auto open = Call("open");
  calls_.Add(open);
  calls_.EndAll();
  calls_.EndAll();
  EXPECT_THAT(ended_, ElementsAre("open"));
}

}  // namespace
}  // namespace nerf
