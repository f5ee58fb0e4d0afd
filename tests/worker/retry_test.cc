#include "worker/base/retry.h"

#include <gtest/gtest.h>

#include "common/error_reason.h"

namespace nerf {
namespace {

TEST(RetryTest, ServerThatIsAwayIsTriedForEverWithPausesUpToALimit) {
  Retry retry({});
  const CallResult away{absl::StatusCode::kUnavailable, "away", ""};
  EXPECT_EQ(retry.After(away), absl::Seconds(1));
  EXPECT_EQ(retry.After(away), absl::Seconds(2));
  EXPECT_EQ(retry.After(away), absl::Seconds(4));
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(retry.After(away), absl::Seconds(5));
}

TEST(RetryTest, ErrorThatAServerAnswersWithIsGivenUpAfterSomeMinutes) {
  for (const auto code :
       {absl::StatusCode::kInternal, absl::StatusCode::kUnknown,
        absl::StatusCode::kPermissionDenied, absl::StatusCode::kUnauthenticated}) {
    Retry retry({});
    absl::Duration waited;
    int n_tries = 1;
    while (const auto pause = retry.After({code, "no", ""})) {
      EXPECT_LE(*pause, absl::Seconds(30));
      waited += *pause;
      ++n_tries;
    }
    EXPECT_EQ(n_tries, 20);
    EXPECT_GT(waited, absl::Minutes(5));
    EXPECT_LT(waited, absl::Minutes(10));
  }
}

TEST(RetryTest, WorkerWithoutRoomGivesUpWhereAServerWithoutRoomIsWaitedFor) {
  Retry server({}), worker({});
  const CallResult full{absl::StatusCode::kResourceExhausted, "full", ""};
  const CallResult own{absl::StatusCode::kResourceExhausted, "full",
                       std::string(reason::kWorkerExhausted)};
  int n_tries = 1;
  while (worker.After(own).has_value()) ++n_tries;
  EXPECT_EQ(n_tries, 20);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(server.After(full).has_value());
}

TEST(RetryTest, RefusalIsNotRepeatedButMissingBlobsAreSentAgain) {
  EXPECT_EQ(Retry({}).After({absl::StatusCode::kInvalidArgument, "bad", ""}), std::nullopt);
  EXPECT_EQ(Retry({}).After({absl::StatusCode::kFailedPrecondition, "bad", ""}), std::nullopt);
  EXPECT_EQ(Retry({}).After({absl::StatusCode::kFailedPrecondition, "gone",
                             std::string(reason::kBlobsMissing)}),
            absl::Seconds(1));
}

}  // namespace
}  // namespace nerf
