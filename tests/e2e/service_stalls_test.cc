// While nerfd or its disk stalls, no lease is lost. While only the disk hangs, health, reads and
// heartbeats continue. NERF_STALL_SECONDS and NERF_STALL_ROUNDS lengthen the tests for
// measurements.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>

#include "common/process/exit_code.h"
#include "common/rpc/channel.h"
#include "nerf/v1/job_service.grpc.pb.h"
#include "tests/e2e/owner_channel.h"
#include "tests/e2e/service_harness.h"

namespace nerf {
namespace {

using testing::HasSubstr;

int FromEnvironment(const char* name, int otherwise) {
  const char* const text = getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

// Durations of successive calls.
struct Latencies {
  std::vector<absl::Duration> all;
  absl::Duration At(double share) {
    std::sort(all.begin(), all.end());
    return all.empty() ? absl::InfiniteDuration()
                       : all[std::min(all.size() - 1, static_cast<size_t>(all.size() * share))];
  }
  void Print(const char* what) {
    printf("%-24s n %zu p50 %s p99 %s max %s\n", what, all.size(),
           absl::FormatDuration(At(0.5)).c_str(), absl::FormatDuration(At(0.99)).c_str(),
           absl::FormatDuration(At(1)).c_str());
  }
};

class ServiceStallsTest : public ServiceTest {
 protected:
  // nerfd with a job in training, on a disk that can be made to hang.
  void TrainOnHeldDisk(const std::string& lease_ttl, int seconds) {
    ASSERT_TRUE(StartNerfd({"--lease-ttl", lease_ttl},
                           {std::string("LD_PRELOAD=") + HOLD_SYNC, "NERF_HOLD_SYNC=" + hold_}))
        << nerfd().err();
    CreateSmallScene();
    ASSERT_EQ(CreateJob("job", {"--seconds", std::to_string(seconds)}).code, kOk);
    ASSERT_TRUE(WaitForCheckpoint("job"));
  }
  void Hold() { std::ofstream(hold_) << "hold"; }
  void LetGo() { unlink(hold_.c_str()); }

  // The value of a metric without labels.
  double Metric(const std::string& name) {
    const std::string all = "\n" + Metrics();
    const size_t at = all.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::stod(all.substr(at + name.size() + 2));
  }

  // Calls `call` every few milliseconds until `until`; false ends it with a failure.
  static Latencies Measure(absl::Time until, const std::function<bool()>& call) {
    Latencies latencies;
    while (absl::Now() < until) {
      const absl::Time begin = absl::Now();
      EXPECT_TRUE(call());
      latencies.all.push_back(absl::Now() - begin);
      absl::SleepFor(absl::Milliseconds(5));
    }
    return latencies;
  }

  const std::string hold_ = dir_ / "hold";
};

TEST_F(ServiceStallsTest, WhileSyncsHangNoLeaseIsLostAndReadsAndHealthAnswer) {
#ifdef NERF_SANITIZED
  GTEST_SKIP() << "sanitizers want to be preloaded first";
#endif
  const int held_seconds = FromEnvironment("NERF_STALL_SECONDS", 8);
  TrainOnHeldDisk("2s", held_seconds + 20);
  const auto channel = OwnerChannel(address());
  const auto jobs = v1::JobService::NewStub(channel);
  const auto get = [&] {
    grpc::ClientContext context;
    PrepareCall(absl::Seconds(5), "", &context);
    v1::GetJobRequest request;
    request.set_name("projects/default/jobs/job");
    v1::Job job;
    return jobs->GetJob(&context, request, &job).ok() && job.state() == v1::Job::RUNNING;
  };
  Hold();
  const absl::Time until = absl::Now() + absl::Seconds(held_seconds);
  // Writes that hang, more of them than there are threads for writes.
  std::atomic<int> n_created = 0;
  std::vector<std::jthread> writers;
  for (int i = 0; i < 24; ++i) {
    writers.emplace_back([&, i] {
      grpc::ClientContext context;
      PrepareCall(absl::Seconds(held_seconds + 30), "", &context);
      v1::CreateJobRequest request;
      request.set_job_id("more-" + std::to_string(i));
      request.mutable_job()->mutable_training()->set_scene("projects/default/scenes/small");
      request.mutable_job()->mutable_training()->mutable_config()->set_steps(1);
      v1::Job job;
      if (jobs->CreateJob(&context, request, &job).ok()) ++n_created;
    });
  }
  Latencies health;
  std::jthread prober([&] {
    health = Measure(until, [&] { return Metrics().find("nerfd_leases 1") != std::string::npos; });
  });
  Latencies reads = Measure(until, get);
  EXPECT_EQ(n_created, 0) << "an answer means that it is on disk";
  LetGo();
  prober.join();
  writers.clear();
  EXPECT_EQ(n_created, 24);
  reads.Print("get, disk held");
  health.Print("/metrics, disk held");
  EXPECT_LT(reads.At(0.9), absl::Seconds(held_seconds) / 2) << "reads wait for no sync";
  const Json job = GetJob("job");
  EXPECT_EQ(job["attempt"], 1);
  EXPECT_EQ(job["state"], "RUNNING");
  EXPECT_EQ(Metric("nerfd_lease_expirations_total"), 0);
}

TEST_F(ServiceStallsTest, StoppedServerPlacesNoJobAnew) {
  const int rounds = FromEnvironment("NERF_STALL_ROUNDS", 3);
  ASSERT_TRUE(StartNerfd({"--lease-ttl", "1s"})) << nerfd().err();
  CreateSmallScene();
  ASSERT_EQ(CreateJob("job", {"--seconds", std::to_string(20 + 3 * rounds)}).code, kOk);
  ASSERT_TRUE(WaitForSteps("job"));
  for (int round = 0; round < rounds; ++round) {
    nerfd().Kill(SIGSTOP);
    absl::SleepFor(absl::Seconds(2));
    nerfd().Kill(SIGCONT);
    // Enough for nerfd to read the messages that waited and to check the leases.
    absl::SleepFor(absl::Seconds(0.5));
    ASSERT_EQ(GetJob("job")["state"], "RUNNING") << "round " << round;
  }
  EXPECT_EQ(GetJob("job")["attempt"], 1);
  EXPECT_EQ(Metric("nerfd_lease_expirations_total"), 0);
  printf("rounds %d: leases lost 0\n", rounds);
}

TEST_F(ServiceStallsTest, AfterSigtermCallsAreAnsweredUntilTheDelayIsOver) {
  ASSERT_TRUE(StartNerfd({"--no-local-worker", "--shutdown-delay", "3s"})) << nerfd().err();
  const absl::Time begin = absl::Now();
  nerfd().Kill(SIGTERM);
  EXPECT_EQ(Ctl({"job", "ls"}).code, kOk);
  EXPECT_EQ(nerfd().Wait(absl::Seconds(20)), kOk);
  EXPECT_GE(absl::Now() - begin, absl::Seconds(3));
}

}  // namespace
}  // namespace nerf
