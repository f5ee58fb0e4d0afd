#include "server/access/worker_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "common/access_reason.h"
#include "common/error_reason.h"
#include "tests/testing/fake_access_store.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using absl::StatusCode;

class WorkerKeysTest : public testing::Test {
 protected:
  static constexpr WorkerKeyOptions kOptions{.max_keys = 3};
  absl::Status Bind(const std::string& worker, const std::string& key) {
    return keys_.CheckOrBind(
        worker, key, [this](const std::string& id) { return connected_.contains(id); },
        [](const std::function<void()>& task) { task(); });
  }
  std::set<std::string> Stored() {
    std::set<std::string> workers;
    const StoredAccess stored = *store_.Load();
    for (const WorkerKeyRecord& key : stored.worker_keys) workers.insert(key.worker);
    return workers;
  }

  FakeAccessStore store_;
  FakeClock clock_;
  std::set<std::string> connected_;
  WorkerKeys keys_{&store_, {}, &clock_, kOptions};
};

TEST_F(WorkerKeysTest, FirstKeyOfAWorkerIsItsKey) {
  EXPECT_THAT(Bind("a", "key"), IsOk());
  EXPECT_THAT(Bind("a", "key"), IsOk());
  EXPECT_THAT(keys_.Check("a", "key"), IsOk());
  EXPECT_THAT(Bind("a", "other"),
              FailsWith(StatusCode::kPermissionDenied, reason::kWorkerKeyMismatch));
  EXPECT_THAT(keys_.Check("a", "other"),
              FailsWith(StatusCode::kPermissionDenied, reason::kWorkerKeyMismatch));
  EXPECT_THAT(keys_.Check("b", "key"),
              FailsWith(StatusCode::kPermissionDenied, reason::kWorkerKeyMismatch));
  EXPECT_THAT(Bind("b", ""), FailsWith(StatusCode::kPermissionDenied, reason::kWorkerKeyMismatch));
  EXPECT_EQ(Stored(), std::set<std::string>{"a"});
}

TEST_F(WorkerKeysTest, MadeUpIdsNeitherGrowItNorTakeKeysThatAreInUse) {
  ASSERT_THAT(Bind("a", "key"), IsOk());
  for (int i = 0; i < 1000; ++i) {
    const absl::Status status = Bind("made-up-" + std::to_string(i), "key");
    if (i < 2) {
      EXPECT_THAT(status, IsOk());
    } else {
      EXPECT_THAT(status, FailsWith(StatusCode::kResourceExhausted, reason::kQuotaExceeded));
    }
    clock_.Advance(absl::Minutes(1));
  }
  EXPECT_EQ(Stored().size(), 3u);
  EXPECT_THAT(Bind("a", "key"), IsOk());
  EXPECT_THAT(Bind("a", "stolen"),
              FailsWith(StatusCode::kPermissionDenied, reason::kWorkerKeyMismatch));
}

TEST_F(WorkerKeysTest, LeastRecentlyUsedKeyMakesRoomAfterADay) {
  for (const char* worker : {"a", "b", "c"}) {
    ASSERT_THAT(Bind(worker, "key"), IsOk());
    clock_.Advance(absl::Minutes(1));
  }
  connected_.insert("b");
  clock_.Advance(absl::Hours(23));
  EXPECT_THAT(keys_.Check("a", "key"), IsOk());
  EXPECT_THAT(Bind("d", "key"), FailsWith(StatusCode::kResourceExhausted, reason::kQuotaExceeded));
  clock_.Advance(absl::Hours(1));
  EXPECT_THAT(Bind("d", "key"), IsOk());  // in place of c
  EXPECT_EQ(Stored(), (std::set<std::string>{"a", "b", "d"}));
  EXPECT_THAT(keys_.Check("c", "key"),
              FailsWith(StatusCode::kPermissionDenied, reason::kWorkerKeyMismatch));
  EXPECT_THAT(Bind("e", "key"), FailsWith(StatusCode::kResourceExhausted, reason::kQuotaExceeded))
      << "b is connected";
  clock_.Advance(absl::Hours(24));
  EXPECT_THAT(Bind("e", "key"), IsOk());  // in place of a
  EXPECT_EQ(Stored(), (std::set<std::string>{"b", "d", "e"}));
}

TEST_F(WorkerKeysTest, KeysComeBackAfterARestart) {
  ASSERT_THAT(Bind("a", "key"), IsOk());
  WorkerKeys later(&store_, store_.Load()->worker_keys, &clock_, kOptions);
  EXPECT_THAT(later.Check("a", "key"), IsOk());
}

}  // namespace
}  // namespace nerf
