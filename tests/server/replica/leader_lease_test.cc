#include "server/replica/leader_lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "tests/testing/status_matchers.h"
#include "tests/testing/wait_until.h"

namespace nerf {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(20);

// A table in memory.
struct FakeTable {
  Mutex mu;
  uint64_t term ABSL_GUARDED_BY(mu) = 7;
  bool is_away ABSL_GUARDED_BY(mu) = false;
  int n_renewals ABSL_GUARDED_BY(mu) = 0;
  bool resigned ABSL_GUARDED_BY(mu) = false;

  void Set(uint64_t new_term, bool away) {
    MutexLock lock(mu);
    term = new_term;
    is_away = away;
  }
  int renewals() {
    MutexLock lock(mu);
    return n_renewals;
  }
  bool has_resigned() {
    MutexLock lock(mu);
    return resigned;
  }
};

class FakeLeaderTable final : public LeaderTable {
 public:
  explicit FakeLeaderTable(FakeTable* table) : table_(*table) {}
  absl::StatusOr<LeaderRow> Read() override { return LeaderRow{}; }
  absl::StatusOr<bool> Renew(uint64_t term, absl::Duration) override {
    MutexLock lock(table_.mu);
    if (table_.is_away) return absl::UnavailableError("away");
    ++table_.n_renewals;
    return term == table_.term;
  }
  absl::Status Resign(uint64_t term) override {
    MutexLock lock(table_.mu);
    table_.resigned = term == table_.term;
    return absl::OkStatus();
  }

 private:
  FakeTable& table_;
};

class LeaderLeaseTest : public testing::Test {
 protected:
  std::unique_ptr<LeaderLease> Make(absl::Duration duration) {
    return std::make_unique<LeaderLease>(
        LeaderLease::Options{.duration = duration,
                             .renew_interval = absl::Milliseconds(5),
                             .retry_interval = absl::Milliseconds(5)},
        [this]() -> absl::StatusOr<std::unique_ptr<LeaderTable>> {
          return std::make_unique<FakeLeaderTable>(&table_);
        },
        7, RealClock().Now(), [this] { return is_broken_.load(); },
        [this](const std::string& why) {
          why_ = why;
          is_lost_ = true;
        });
  }

  FakeTable table_;
  std::atomic<bool> is_broken_ = false, is_lost_ = false;
  std::string why_;  // once is_lost_
};

TEST_F(LeaderLeaseTest, IsRenewedUntilAnotherTermBegins) {
  const auto lease = Make(absl::Seconds(60));
  WaitUntil(kPatience, [&] { return table_.renewals() >= 3; });
  EXPECT_TRUE(lease->valid());
  EXPECT_FALSE(is_lost_);
  table_.Set(8, /*away=*/false);
  WaitUntil(kPatience, [&] { return is_lost_.load(); });
  ASSERT_TRUE(is_lost_);
  EXPECT_THAT(why_, testing::HasSubstr("another term"));
  EXPECT_FALSE(lease->valid()) << "although the old lease would have lasted";
}

TEST_F(LeaderLeaseTest, EndsWithoutPostgresAndGoesOnWhenItIsBack) {
  table_.Set(7, /*away=*/true);
  const auto lease = Make(absl::Milliseconds(100));
  WaitUntil(kPatience, [&] { return !lease->valid(); });
  EXPECT_FALSE(lease->valid());
  EXPECT_FALSE(is_lost_) << "nobody else can lead without PostgreSQL";
  table_.Set(7, /*away=*/false);
  WaitUntil(kPatience, [&] { return lease->valid(); });
  EXPECT_TRUE(lease->valid());
}

TEST_F(LeaderLeaseTest, BrokenStoreLosesIt) {
  const auto lease = Make(absl::Seconds(60));
  EXPECT_TRUE(lease->valid());
  is_broken_ = true;
  EXPECT_FALSE(lease->valid()) << "at once";
  WaitUntil(kPatience, [&] { return is_lost_.load(); });
  ASSERT_TRUE(is_lost_);
  EXPECT_THAT(why_, testing::HasSubstr("store"));
}

TEST_F(LeaderLeaseTest, ResignsOnceAndForAll) {
  const auto lease = Make(absl::Seconds(60));
  WaitUntil(kPatience, [&] { return table_.renewals() >= 1; });
  lease->Resign();
  EXPECT_TRUE(table_.has_resigned());
  EXPECT_FALSE(lease->valid());
  EXPECT_FALSE(is_lost_);
}

}  // namespace
}  // namespace nerf
