// The metrics as a scraper sees them, checked by promtool, with a bounded number of series whatever
// clients send.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "server/metrics/metrics_text.h"
#include "server/metrics/process_collector.h"
#include "server/metrics/rpc_metrics.h"
#include "server/metrics/server_metrics.h"
#include "tests/testing/metric_families.h"
#include "tests/testing/paths.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using testing::HasSubstr;
using testing::Not;

class MetricsTest : public testing::Test {
 protected:
  MetricsTest() : rpc_(*metrics_.registry()) {
    rpc_.AddMethod(RpcType::kUnary, "nerf.v1.SceneService", "GetScene");
    rpc_.AddMethod(RpcType::kBidiStream, "nerf.v1.WorkerService", "Synchronize");
  }

  std::string Scrape() {
    const std::vector<std::shared_ptr<prometheus::Collectable>> sources = {metrics_.collectable(),
                                                                           MakeProcessCollector()};
    return MetricsText(sources);
  }

  // Calls every method once, so that every family has a series.
  void Exercise() {
    metrics_.JobCreated("default");
    metrics_.JobFinished("default", "failed", "TRAINING_DIVERGED");
    metrics_.JobRan("export", "failed", 95);
    metrics_.PosesMatched(2e5);
    metrics_.SetPoseJobs({{"RUNNING", 2}});
    metrics_.AttemptEnded("completed");
    metrics_.JobLeftQueue(45);
    metrics_.WatchEventTaken(0.004);
    metrics_.WatchGap("live");
    metrics_.AuthFailed("TOKEN_INVALID");
    metrics_.SetCertificateExpiry(1.8e9);
    metrics_.LeaseExpired();
    metrics_.WriteFenced("CommitCheckpoint");
    metrics_.StoreCommitted(0.003);
    metrics_.StoreCommitFailed();
    metrics_.SetJobs({{{"default", "QUEUED"}, 3}, {{"default", "RUNNING"}, 1}});
    metrics_.SetQueue(3, 12.5);
    metrics_.SetLeases(1);
    metrics_.SetWorkers({{"idle", 2}});
    metrics_.SetWatchers(4);
    metrics_.WatcherEvicted();
    metrics_.SetStoreReadOnly(true);
    metrics_.SetLeader(true, 3);
    metrics_.SetBlobStore(1000, 2000);
    metrics_.BlobReceived(10);
    metrics_.BlobSent(20);
    metrics_.BlobUploadFailed("FIELD_INVALID");
    metrics_.BlobDamaged();
    metrics_.TrainReported("worker-1", "cpu", {100, 5000, 0.02, 0.5, 22.5, 1.7e9, 0.25});
    metrics_.CheckpointCommitted("worker-1", "cpu", 1.7e9 + 30);
    metrics_.GpuReported("gpu-1", "cuda:0", {0.9, 3e9, 8e10, 51, 300});
    metrics_.RenderFinished("image", "ok", 0.5);
    metrics_.RenderFinished("image", "WORKER_LOST", 0.1);
    RpcMethodMetrics* method = rpc_.Find("/nerf.v1.SceneService/GetScene");
    method->Started();
    method->MessageReceived();
    method->Handled(5, 0.01);
  }

  ServerMetrics metrics_{BuildInfo{"0.1.0", "abc", "none", "1.51"}};
  RpcMetrics rpc_;
};

TEST_F(MetricsTest, EveryFamilyThatIsDueIsThereFromTheStart) {
  const std::string body = Scrape();
  for (const char* name : kMetricFamilies) {
    EXPECT_THAT(body, HasSubstr(std::string("# HELP ") + name + " "));
    EXPECT_THAT(body, HasSubstr(std::string("# TYPE ") + name + " "));
    EXPECT_TRUE(body.find(std::string("\n") + name + "{") != std::string::npos ||
                body.find(std::string("\n") + name + " ") != std::string::npos ||
                body.find(std::string("\n") + name + "_count") != std::string::npos)
        << name << " has no series";
  }
}

// Of QueueObserver::OnAttemptEnded.
TEST_F(MetricsTest, EveryResultOfAnAttemptBeginsAtZero) {
  const std::string body = Scrape();
  for (const char* result :
       {"completed", "lease_expired", "drained", "preempted", "engine_crash", "no_room",
        "checkpoint_corrupt", "blobs_missing", "failed", "cancelled"}) {
    EXPECT_THAT(body,
                HasSubstr(std::string("nerfd_job_attempts_total{result=\"") + result + "\"} 0"));
  }
}

TEST_F(MetricsTest, ValuesArriveUnderTheirLabels) {
  Exercise();
  const std::string body = Scrape();
  for (
      const char* line :
      {R"(nerfd_jobs{project="default",state="QUEUED"} 3)",
       R"(nerfd_jobs_finished_total{project="default",reason="TRAINING_DIVERGED",result="failed"} 1)",
       R"(nerfd_queue_jobs{priority_class="normal",queue="default"} 3)",
       R"(nerfd_queue_oldest_job_age_seconds{priority_class="normal",queue="default"} 12.5)",
       R"(nerfd_job_queue_duration_seconds_bucket{queue="default",le="30"} 0)",
       R"(nerfd_job_queue_duration_seconds_bucket{queue="default",le="60"} 1)",
       R"(nerfd_watch_event_delay_seconds_bucket{le="0.0025"} 0)",
       R"(nerfd_watch_event_delay_seconds_bucket{le="0.005"} 1)",
       R"(nerfd_watch_gaps_total{kind="live"} 1)",
       R"(nerfd_watch_gaps_total{kind="resumed"} 0)",
       R"(nerfd_auth_failures_total{reason="TOKEN_INVALID"} 1)",
       R"(nerfd_auth_failures_total{reason="ACCESS_DENIED"} 0)",
       "nerfd_tls_certificate_expiry_timestamp_seconds 1800000000",
       R"(nerfd_checkpoint_last_success_timestamp_seconds{device="cpu",worker="worker-1"} 1700000030)",
       R"(nerfd_job_attempts_total{result="completed"} 1)",
       R"(nerfd_lease_fenced_writes_total{rpc="CommitCheckpoint"} 1)",
       R"(nerfd_workers{state="idle"} 2)",
       R"(nerfd_watchers{kind="job"} 4)",
       "nerfd_watchers_evicted_total 1",
       "nerfd_store_read_only 1",
       "nerfd_blob_damaged_total 1",
       R"(nerfd_train_steps_total{device="cpu"} 100)",
       R"(nerfd_train_step_duration_seconds_bucket{device="cpu",le="0.01"} 0)",
       R"(nerfd_train_step_duration_seconds_bucket{device="cpu",le="0.025"} 100)",
       R"(nerfd_train_step_duration_seconds_sum{device="cpu"} 2)",
       R"(nerfd_train_loss{device="cpu",worker="worker-1"} 0.5)",
       R"(nerfd_train_psnr_decibels{device="cpu",worker="worker-1"} 22.5)",
       R"(nerfd_train_last_step_timestamp_seconds{device="cpu",worker="worker-1"} 1700000000)",
       R"(nerfd_train_stall_ratio{device="cpu",worker="worker-1"} 0.25)",
       R"(nerfd_gpu_utilization_ratio{gpu="cuda:0",worker="gpu-1"} 0.9)",
       R"(nerfd_gpu_memory_used_bytes{gpu="cuda:0",worker="gpu-1"} 3000000000)",
       R"(nerfd_gpu_memory_size_bytes{gpu="cuda:0",worker="gpu-1"} 80000000000)",
       R"(nerfd_gpu_temperature_celsius{gpu="cuda:0",worker="gpu-1"} 51)",
       R"(nerfd_gpu_power_watts{gpu="cuda:0",worker="gpu-1"} 300)",
       R"(nerfd_render_requests_total{kind="image",result="WORKER_LOST"} 1)",
       R"(nerfd_render_duration_seconds_count{kind="image"} 2)"}) {
    EXPECT_THAT(body, HasSubstr(line));
  }
  // A series that is missing from the next call falls to 0.
  metrics_.SetJobs({});
  EXPECT_THAT(Scrape(), HasSubstr(R"(nerfd_jobs{project="default",state="QUEUED"} 0)"));
}

TEST_F(MetricsTest, WorkerThatTellsNoMoreHasNoGaugesOfItsGpu) {
  metrics_.GpuReported("gpu-1", "cuda:0", {.utilization = 0.9, .power_watts = 300});
  metrics_.GpuReported("gpu-2", "cuda:0", {.utilization = 0.5});
  metrics_.WorkerIsSilent("gpu-1", "cuda:0");
  metrics_.WorkerIsSilent("gpu-3", "cuda:0");
  const std::string body = Scrape();
  EXPECT_THAT(body, Not(HasSubstr("gpu-1")));
  EXPECT_THAT(body, Not(HasSubstr("gpu-3")));
  EXPECT_THAT(body, HasSubstr(R"(nerfd_gpu_utilization_ratio{gpu="cuda:0",worker="gpu-2"} 0.5)"));
}

TEST_F(MetricsTest, WorkerThatHangsIsNotHiddenByOneOfTheSameDeviceThatGoesOn) {
  metrics_.TrainReported("hangs", "cpu", {1, 1, 0.1, 0.5, 20, 1000, 0.25});
  for (double now : {1001.0, 1002.0}) {
    metrics_.TrainReported("goes-on", "cpu", {1, 1, 0.1, 0.25, 23, now, 0});
  }
  const std::string body = Scrape();
  for (const char* line :
       {R"(nerfd_train_last_step_timestamp_seconds{device="cpu",worker="hangs"} 1000)",
        R"(nerfd_train_last_step_timestamp_seconds{device="cpu",worker="goes-on"} 1002)",
        R"(nerfd_train_loss{device="cpu",worker="hangs"} 0.5)",
        R"(nerfd_train_psnr_decibels{device="cpu",worker="hangs"} 20)",
        R"(nerfd_train_stall_ratio{device="cpu",worker="hangs"} 0.25)",
        R"(nerfd_train_steps_total{device="cpu"} 3)"}) {
    EXPECT_THAT(body, HasSubstr(line));
  }
}

TEST_F(MetricsTest, WorkerThatTrainsNoMoreKeepsWhatWasCountedAndNoGauge) {
  metrics_.TrainReported("stops", "cpu", {5, 50, 0.1, 0.5, 20, 1000, 0.25});
  metrics_.TrainReported("goes-on", "cpu", {1, 1, 0.1, 0.25, 23, 1000, 0});
  metrics_.WorkerIsSilent("stops", "cpu");
  const std::string body = Scrape();
  EXPECT_THAT(body, Not(HasSubstr("stops")));
  EXPECT_THAT(body, HasSubstr(R"(nerfd_train_steps_total{device="cpu"} 6)"));
  EXPECT_THAT(body, HasSubstr(R"(nerfd_train_loss{device="cpu",worker="goes-on"} 0.25)"));
}

TEST_F(MetricsTest, LastCheckpointIsThatOfTheTrainingElseItsBegin) {
  const auto shows = [&](const std::string& worker, const std::string& time) {
    const std::string name = "nerfd_checkpoint_last_success_timestamp_seconds";
    return Scrape().find(name + "{device=\"cpu\",worker=\"" + worker + "\"} " + time) !=
           std::string::npos;
  };
  metrics_.CheckpointCommitted("a", "cpu", 900);
  EXPECT_FALSE(shows("a", "")) << "it does not train";
  metrics_.TrainReported("a", "cpu", {1, 1, 0.1, 0.5, 20, 1000});
  metrics_.TrainReported("a", "cpu", {1, 1, 0.1, 0.5, 20, 1010});
  EXPECT_TRUE(shows("a", "1000"));
  metrics_.CheckpointCommitted("a", "cpu", 1030);
  metrics_.TrainReported("a", "cpu", {1, 1, 0.1, 0.5, 20, 1040});
  EXPECT_TRUE(shows("a", "1030"));
  metrics_.TrainReported("follows", "cpu", {1, 1, 0.1, 0.5, 20, 1000, {}, false});
  EXPECT_FALSE(shows("follows", "")) << "another rank commits";
  metrics_.WorkerIsSilent("a", "cpu");
  EXPECT_FALSE(shows("a", ""));
}

TEST_F(MetricsTest, WorkersThatComeAndGoDoNotUseUpTheLabelsOfTheirGauges) {
  for (int i = 0; i < 1000; ++i) {
    const std::string worker = "pod-" + std::to_string(i);
    metrics_.GpuReported(worker, "cuda:0", {.utilization = 0.5});
    metrics_.TrainReported(worker, "cuda:0", {1, 1, 0.1, 1, 1, 1});
    const std::string body = Scrape();
    for (const char* labels : {R"(nerfd_gpu_utilization_ratio{gpu="cuda:0",worker=")",
                               R"(nerfd_train_loss{device="cuda:0",worker=")"}) {
      EXPECT_NE(body.find(labels + worker + "\""), std::string::npos) << labels;
    }
    metrics_.WorkerIsSilent(worker, "cuda:0");
    if (HasFailure()) break;
  }
  EXPECT_EQ(Scrape().find("pod-"), std::string::npos);
}

TEST_F(MetricsTest, CodesThatAlertsReadHaveASeriesBeforeTheFirstCallAndOthersFromThen) {
  std::string body = Scrape();
  for (const char* code : {"OK", "Unknown", "Internal", "DataLoss"}) {
    EXPECT_THAT(body, HasSubstr(std::string("grpc_server_handled_total{grpc_code=\"") + code +
                                "\",grpc_method=\"GetScene\""));
  }
  EXPECT_THAT(body, Not(HasSubstr("grpc_code=\"NotFound\"")));
  RpcMethodMetrics* method = rpc_.Find("/nerf.v1.SceneService/GetScene");
  method->Handled(5, 0.1);
  method->Handled(5, 0.1);
  method->Handled(99, 0.1);  // no code: counts as Unknown
  body = Scrape();
  size_t n_codes = 0;
  for (size_t at = 0; (at = body.find("grpc_server_handled_total{", at)) != std::string::npos;
       ++at) {
    const std::string line = body.substr(at, body.find('\n', at) - at);
    if (line.find(R"(grpc_method="GetScene")") != std::string::npos) {
      EXPECT_THAT(line, HasSubstr(R"(grpc_service="nerf.v1.SceneService")"));
      EXPECT_THAT(line, HasSubstr(R"(grpc_type="unary")"));
      ++n_codes;
    }
  }
  EXPECT_EQ(n_codes, 5u);
  EXPECT_THAT(body, HasSubstr("grpc_server_handled_total{grpc_code=\"NotFound\",grpc_method="
                              "\"GetScene\",grpc_service=\"nerf.v1.SceneService\","
                              "grpc_type=\"unary\"} 2"));
  EXPECT_THAT(body, HasSubstr(R"(grpc_type="bidi_stream")"));
  EXPECT_EQ(rpc_.Find("/evil.Service/Attack-1"), rpc_.Find("/evil.Service/Attack-2"));
}

// At most 100 values of a label, including the default project.
TEST_F(MetricsTest, LabelsFromOutsideAreCapped) {
  for (int i = 0; i < 1000; ++i) {
    metrics_.JobCreated("project-" + std::to_string(i));
    metrics_.JobFinished("default", "failed", "REASON_" + std::to_string(i));
    metrics_.TrainReported("worker-1", "cuda:" + std::to_string(i), {1, 1, 0.1, 1, 1, 1});
    metrics_.TrainReported("worker-" + std::to_string(i), "cpu", {1, 1, 0.1, 1, 1, 1});
  }
  const std::string body = Scrape();
  // No matchers, because they would print the whole page.
  EXPECT_NE(body.find(R"(nerfd_jobs_created_total{project="other"} 901)"), std::string::npos);
  for (const char* beyond : {"project-500", "REASON_500", "cuda:500", "worker-500"}) {
    EXPECT_EQ(body.find(beyond), std::string::npos) << beyond;
  }
}

TEST_F(MetricsTest, WorkerThatReportsNonsenseCorruptsNoCounter) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  metrics_.TrainReported("worker-1", "cpu", {nan, -5, nan, nan, nan, 0});
  metrics_.TrainReported("worker-1", "cpu",
                         {-1, std::numeric_limits<double>::infinity(), -1, 0, 0, 0});
  const std::string body = Scrape();
  EXPECT_THAT(body, HasSubstr(R"(nerfd_train_steps_total{device="cpu"} 0)"));
  EXPECT_THAT(body, HasSubstr(R"(nerfd_train_rays_total{device="cpu"} 0)"));
}

TEST_F(MetricsTest, ProcessFiguresAreThoseOfThisProcess) {
  const std::string body = Scrape();
  const auto value = [&](const std::string& name) {
    const size_t at = body.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::strtod(body.c_str() + at + name.size() + 2, nullptr);
  };
  EXPECT_GT(value("process_resident_memory_bytes"), 1e6);
  EXPECT_GE(value("process_cpu_seconds_total"), 0);
  EXPECT_GE(value("process_open_fds"), 3);
  EXPECT_GT(value("process_max_fds"), value("process_open_fds"));
  const double age = static_cast<double>(time(nullptr)) - value("process_start_time_seconds");
  EXPECT_GE(age, -2);
  EXPECT_LT(age, 3600);
}

TEST_F(MetricsTest, PromtoolHasNothingToSay) {
  std::string promtool = SourceDir() + "/build/tools/usr/bin/promtool";
  if (!std::filesystem::exists(promtool)) promtool = "promtool";
  if (std::system((promtool + " --version >/dev/null 2>&1").c_str()) != 0) {
    GTEST_SKIP() << "no promtool; scripts/setup.sh --test unpacks one";
  }
  Exercise();
  TempDir dir;
  std::ofstream(dir / "metrics") << Scrape();
  const std::string command = promtool + " check metrics < " + (dir / "metrics") + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  std::string said;
  char buffer[1024];
  while (fgets(buffer, sizeof(buffer), pipe) != nullptr) said += buffer;
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_EQ(said, "");
}

}  // namespace
}  // namespace nerf
