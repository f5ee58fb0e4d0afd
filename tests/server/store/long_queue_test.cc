// Ten thousand queued jobs on a real store: calls stay fast. The bounds are ten times what one core
// of 2023 needs, so that only costs that grow with the queue exceed them. Processor time is
// measured, which other load on the machine changes little.
#include <time.h>

#include <cstdio>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/ids.h"
#include "server/queue/catalogs/scene_catalog.h"
#include "server/queue/leases/lease_table.h"
#include "server/queue/state/job_queue.h"
#include "server/store/blob_store.h"
#include "server/store/sqlite_store.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

constexpr int kJobs = 10'000;

class LongQueueTest : public testing::Test {
 protected:
  LongQueueTest() {
    blobs_ = *BlobStore::Open(dir_ / "blobs", {}, &clock_);
    Restart();
  }
  void Restart() {
    queue_.reset();
    leases_.reset();
    state_.reset();
    store_.reset();
    store_ = *SqliteStore::Open(dir_ / "nerfd.db", random_);
    state_ = *QueueState::Open({}, {&clock_, &random_, store_.get(), blobs_.get(), nullptr});
    queue_ = std::make_unique<JobQueue>(state_.get());
    leases_ = std::make_unique<LeaseTable>(state_.get());
  }
  static absl::Duration ProcessorTime() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return absl::DurationFromTimespec(time);
  }
  // The mean processor time of `n` calls.
  template <typename Call>
  static absl::Duration Mean(const char* what, int n, Call call) {
    const absl::Duration start = ProcessorTime();
    for (int i = 0; i < n; ++i) call();
    const absl::Duration mean = (ProcessorTime() - start) / n;
    std::printf("%-24s %s\n", what, absl::FormatDuration(mean).c_str());
    return mean;
  }

  TempDir dir_;
  RealClock clock_;
  SystemRandom random_;
  std::unique_ptr<BlobStore> blobs_;
  std::unique_ptr<SqliteStore> store_;
  std::unique_ptr<QueueState> state_;
  std::unique_ptr<JobQueue> queue_;
  std::unique_ptr<LeaseTable> leases_;
};

TEST_F(LongQueueTest, TenThousandQueuedJobsMakeNoCallSlow) {
  SceneCatalog scenes(state_.get());
  ASSERT_THAT(scenes.Create({"default", "scene", "", "", {{"a", *blobs_->Put("a")}}}), IsOk());
  JobSpec spec;
  spec.project = "default";
  spec.training.scene = "scene";
  spec.training.config.set_method("ngp");
  for (int i = 0; i < 30; ++i)
    (*spec.training.config.mutable_settings())["setting_" + std::to_string(i)] = "0.001";
  const auto create = [&] { ASSERT_THAT(queue_->Create(spec), IsOk()); };
  const absl::Duration first = Mean("create, the first 100", 100, create);
  Mean("create, the rest", kJobs - 200, create);
  const absl::Duration last = Mean("create, the last 100", 100, create);
  EXPECT_LT(last, 10 * first + absl::Milliseconds(10));
  EXPECT_THAT(queue_->Create(spec),
              FailsWith(absl::StatusCode::kResourceExhausted, reason::kQueueFull));

  EXPECT_LT(Mean("list a page of 1000", 10,
                 [&] {
                   const auto page = queue_->List({"default", 1000, ""});
                   ASSERT_THAT(page, IsOk());
                   ASSERT_EQ(page->records.size(), 1000u);
                 }),
            absl::Milliseconds(200));
  std::set<std::string> seen;
  PageRequest request = {"default", 1000, ""};
  do {
    const auto page = queue_->List(request);
    ASSERT_THAT(page, IsOk());
    for (const ListedJob& listed : page->records) seen.insert(listed.row->job().key.id);
    request.page_token = page->next_page_token;
  } while (!request.page_token.empty());
  EXPECT_EQ(seen.size(), static_cast<size_t>(kJobs));

  EXPECT_LT(Mean("tick", 100, [&] { leases_->ExpireLeases(); }), absl::Milliseconds(5));
  EXPECT_LT(Mean("stats", 10, [&] { ASSERT_EQ(queue_->Stats().n_queued, size_t{kJobs}); }),
            absl::Milliseconds(5));
  EXPECT_LT(Mean("restart", 1, [&] { Restart(); }), absl::Seconds(10));
  EXPECT_LT(Mean("grant", 100,
                 [&] {
                   const auto grant = leases_->Acquire({"worker-a"});
                   ASSERT_THAT(grant, IsOk());
                   ASSERT_TRUE(grant->has_value());
                 }),
            10 * first + absl::Milliseconds(10));
}

}  // namespace
}  // namespace nerf
