// One worker's session without its stream. The tests pass messages and collect responses, so that
// calls of other threads can happen at the critical moments.
#include "server/rpc/workers/worker_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "server/access/access_control.h"
#include "server/rpc/convert/convert_common.h"
#include "server/store/blob_store.h"
#include "tests/testing/fake_access_store.h"
#include "tests/testing/queue_harness.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using testing::IsEmpty;

class WorkerSessionTest : public testing::Test {
 protected:
  WorkerSessionTest() { harness_.AddScene(); }

  std::unique_ptr<WorkerSession> NewSession() {
    return std::make_unique<WorkerSession>(
        services_,
        [this](v1::SynchronizeResponse response) { sent_.push_back(std::move(response)); },
        [](const WorkerSession::Task& task) { task(); });
  }

  static v1::SynchronizeRequest Report(const LeaseRef& lease, v1::JobReport::Phase phase) {
    v1::SynchronizeRequest message;
    message.mutable_job()->set_job(JobName(lease.job));
    message.mutable_job()->set_lease_epoch(lease.epoch);
    message.mutable_job()->set_phase(phase);
    return message;
  }
  static v1::SynchronizeRequest WithHello(v1::SynchronizeRequest message = {}) {
    message.mutable_hello()->set_worker_id("worker-a");
    message.mutable_hello()->set_session_id("s");
    message.mutable_hello()->set_device("cpu");
    return message;
  }
  bool Acknowledged() const {
    return std::any_of(sent_.begin(), sent_.end(), [](const v1::SynchronizeResponse& response) {
      return !response.finished_acknowledged().empty();
    });
  }

  TempDir dir_;
  QueueHarness harness_;
  std::unique_ptr<BlobStore> blobs_ =
      *BlobStore::Open(dir_.path(), BlobStoreOptions(), &harness_.clock);
  ServerMetrics metrics_{BuildInfo{"0", "test", "none", "1"}};
  WorkerTable workers_{&harness_.clock, absl::Seconds(30)};
  FakeAccessStore access_store_;
  TokenRegistry tokens_{&access_store_, {}, &harness_.clock, &harness_.random};
  WorkerKeys worker_keys_{&access_store_, {}, &harness_.clock};
  BlobOwners blob_owners_;
  AccessControl access_{{&tokens_}};
  Authorizer authorizer_{&access_};
  Executor executor_;
  RequestBroker broker_{&workers_, &executor_, &harness_.random};
  LiveCalls live_calls_;
  ServiceContext services_{harness_.clock,   *harness_.queue, *harness_.leases, *harness_.scenes,
                           *harness_.models, workers_,        *blobs_,          metrics_,
                           authorizer_,      executor_,       broker_,          live_calls_,
                           ServiceTimes(),   tokens_,         worker_keys_,     blob_owners_};
  std::vector<v1::SynchronizeResponse> sent_;
};

TEST_F(WorkerSessionTest, WorkerThatReopensItsStreamKeepsItsJobWhenAnotherIsQueuedMeanwhile) {
  const LeaseRef lease = harness_.Running("first");
  const auto session = NewSession();
  const v1::SynchronizeRequest hello = WithHello(Report(lease, v1::JobReport::RUNNING));
  ASSERT_THAT(session->Open(hello, [] {}), IsOk());
  ASSERT_THAT(harness_.queue->Create(harness_.Spec("second")).status(), IsOk());
  session->HandleWork();  // as the queue's signal may do, before the first message is handled
  EXPECT_THAT(sent_, IsEmpty());
  ASSERT_THAT(session->HandleMessage(hello), IsOk());
  EXPECT_EQ(harness_.StateOf("first"), JobState::kRunning);
  EXPECT_EQ(harness_.StateOf("second"), JobState::kQueued);
}

TEST_F(WorkerSessionTest, EndThatARepeatedHelloBringsIsStoredBeforeAnotherJobIsGranted) {
  const LeaseRef lease = harness_.Running("first");
  const auto session = NewSession();
  const v1::SynchronizeRequest hello = WithHello(Report(lease, v1::JobReport::SUCCEEDED));
  ASSERT_THAT(session->Open(hello, [] {}), IsOk());
  ASSERT_THAT(harness_.queue->Create(harness_.Spec("second")).status(), IsOk());
  session->HandleWork();
  EXPECT_THAT(sent_, IsEmpty());
  ASSERT_THAT(session->HandleMessage(hello), IsOk());
  EXPECT_TRUE(Acknowledged());
  EXPECT_EQ(harness_.StateOf("first"), JobState::kSucceeded);
}

TEST_F(WorkerSessionTest, DrainingWorkerIsGrantedNothingBeforeItsHelloIsHandled) {
  ASSERT_THAT(harness_.queue->Create(harness_.Spec("job")).status(), IsOk());
  const auto session = NewSession();
  v1::SynchronizeRequest hello = WithHello();
  hello.set_draining(true);
  ASSERT_THAT(session->Open(hello, [] {}), IsOk());
  session->HandleWork();
  EXPECT_THAT(sent_, IsEmpty());
  EXPECT_EQ(harness_.StateOf("job"), JobState::kQueued);
}

TEST_F(WorkerSessionTest, WorkerWhoseStreamEndsBeforeItsLastWordsAreHandledHasLeft) {
  const auto session = NewSession();
  ASSERT_THAT(session->Open(WithHello(), [] {}), IsOk());
  session->Close();
  EXPECT_EQ(workers_.List()->size(), 1u);
  v1::SynchronizeRequest last;
  last.set_draining(true);
  ASSERT_THAT(session->HandleMessage(last), IsOk());
  EXPECT_THAT(*workers_.List(), IsEmpty());
}

TEST_F(WorkerSessionTest, GaugesOfAWorkerEndWithItsJobAndWithItsStream) {
  const LeaseRef lease = harness_.Running("job");
  const auto n_series = [&] {
    size_t n = 0;
    for (const prometheus::MetricFamily& family : metrics_.collectable()->Collect()) {
      if (family.name == "nerfd_gpu_utilization_ratio" ||
          family.name == "nerfd_train_last_step_timestamp_seconds") {
        n += family.metric.size();
      }
    }
    return n;
  };
  v1::SynchronizeRequest told = WithHello(Report(lease, v1::JobReport::RUNNING));
  told.mutable_metrics()->set_gpu_utilization(0.5);
  told.mutable_metrics()->set_train_steps(1);
  auto session = NewSession();
  ASSERT_THAT(session->Open(told, [] {}), IsOk());
  ASSERT_THAT(session->HandleMessage(told), IsOk());
  EXPECT_EQ(n_series(), 2u);
  v1::SynchronizeRequest silent = Report(lease, v1::JobReport::RUNNING);
  silent.mutable_metrics();
  ASSERT_THAT(session->HandleMessage(silent), IsOk());
  EXPECT_EQ(n_series(), 2u) << "a heartbeat without news";
  silent.clear_job();
  ASSERT_THAT(session->HandleMessage(silent), IsOk());
  EXPECT_EQ(n_series(), 0u);
  ASSERT_THAT(session->HandleMessage(told), IsOk());
  EXPECT_EQ(n_series(), 2u);
  session->Close();
  EXPECT_EQ(n_series(), 0u);
}

// Includes errors other than UNAVAILABLE: SQLite out of memory, a corrupt store.
TEST_F(WorkerSessionTest, EndThatTheStoreDidNotTakeIsNotAcknowledgedUntilItDoes) {
  const LeaseRef lease = harness_.Running("job");
  const auto session = NewSession();
  ASSERT_THAT(session->Open(WithHello(Report(lease, v1::JobReport::RUNNING)), [] {}), IsOk());
  for (const absl::Status& trouble :
       {absl::InternalError("out of memory"), absl::DataLossError("corrupt"),
        absl::UnavailableError("disk full")}) {
    SCOPED_TRACE(trouble.ToString());
    harness_.memory_store.before_commit = [trouble](int) { return trouble; };
    ASSERT_THAT(session->HandleMessage(Report(lease, v1::JobReport::SUCCEEDED)), IsOk());
    EXPECT_FALSE(Acknowledged());
    EXPECT_EQ(harness_.StateOf("job"), JobState::kRunning);
  }
  harness_.memory_store.before_commit = nullptr;
  ASSERT_THAT(session->HandleMessage(Report(lease, v1::JobReport::SUCCEEDED)), IsOk());
  EXPECT_TRUE(Acknowledged());
  EXPECT_EQ(harness_.StateOf("job"), JobState::kSucceeded);
}

TEST_F(WorkerSessionTest, EndThatCanNeverBeAcceptedIsAcknowledgedAllTheSame) {
  const LeaseRef lease = harness_.Running("job");
  const auto session = NewSession();
  ASSERT_THAT(session->Open(WithHello(Report(lease, v1::JobReport::RUNNING)), [] {}), IsOk());
  // Nobody had cancelled the job.
  ASSERT_THAT(session->HandleMessage(Report(lease, v1::JobReport::CANCELLED)), IsOk());
  EXPECT_TRUE(Acknowledged());
  EXPECT_EQ(harness_.StateOf("job"), JobState::kRunning);
}

}  // namespace
}  // namespace nerf
