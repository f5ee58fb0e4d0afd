// Workers whose engines die, jobs that are paused and retried, and a full disk, on the built
// binaries. The tests' engine trains in their place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include "common/process/exit_code.h"
#include "tests/e2e/service_harness.h"

namespace nerf {
namespace {

using testing::HasSubstr;

class ServiceSickTest : public ServiceTest {
 protected:
  // A worker whose engine is fake_engine with these knobs. A shell starts it, which the sandbox
  // would not let run.
  BinaryProcess& StartWorker(const std::string& name, const std::string& knobs,
                             const std::string& token_file = "") {
    const std::string engine = dir_ / (name + ".engine");
    std::ofstream(engine) << "#!/bin/sh\nexec " << FAKE_ENGINE << " " << knobs << " \"$@\"\n";
    std::filesystem::permissions(engine, std::filesystem::perms::owner_all);
    const std::string token = token_file.empty() ? data_dir() + "/worker.token" : token_file;
    workers_.push_back(Start(
        "nerf-worker", {"--server", address(), "--token-file", token, "--cache-dir",
                        dir_ / ("cache-" + name), "--engine", engine, "--no-engine-sandbox"}));
    return *workers_.back();
  }
  // A job of so many steps of the tests' engine.
  void CreateSteps(const std::string& id, int steps) {
    const CtlResult created =
        Ctl({"job", "create", "small", "--id", id, "--steps", std::to_string(steps)});
    ASSERT_EQ(created.code, kOk) << created.err;
  }
  size_t CountJobs(const std::string& state) {
    const CtlResult listed =
        Ctl({"job", "ls", "--limit", "0", "--filter", "state = " + state, "-o", "name"});
    EXPECT_EQ(listed.code, kOk) << listed.err;
    return static_cast<size_t>(std::count(listed.out.begin(), listed.out.end(), '\n'));
  }

  void TearDown() override {
    for (const auto& worker : workers_) worker->Kill(SIGKILL);
    workers_.clear();
    ServiceTest::TearDown();
  }

  std::vector<std::unique_ptr<BinaryProcess>> workers_;
};

TEST_F(ServiceSickTest, EngineThatDiesAtEveryTrainingBesideAHealthyOneFailsNoneOfFiftyJobs) {
  ASSERT_TRUE(StartNerfd({"--no-local-worker"})) << nerfd().err();
  CreateSmallScene();
  StartWorker("sick", "--crash-at=1");
  StartWorker("healthy", "--step-ms=1");
  constexpr int kJobs = 50;
  for (int i = 0; i < kJobs; ++i) CreateSteps("job-" + std::to_string(i), 20);
  EXPECT_TRUE(WaitUntil(3 * kLong, [&] {
    absl::SleepFor(kPause);
    const Json list =
        Ask("JobService/ListJobs",
            {{"parent", "projects/default"}, {"filter", "state = SUCCEEDED"}, {"pageSize", kJobs}});
    return list.is_object() && list["jobs"].size() == kJobs;
  }));
  EXPECT_EQ(CountJobs("SUCCEEDED"), static_cast<size_t>(kJobs));
  EXPECT_EQ(CountJobs("FAILED"), 0u);
  EXPECT_THAT(Ctl({"worker", "ls"}).out,
              HasSubstr("its engine died on 3 jobs of a project in a row"));
}

TEST_F(ServiceSickTest, PausedJobGoesOnFromItsCheckpointAndACancelledOneIsRetriedFromIts) {
  ASSERT_TRUE(StartNerfd({"--no-local-worker"})) << nerfd().err();
  CreateSmallScene();
  StartWorker("one", "--step-ms=20 --checkpoint-every=100000");
  CreateSteps("job", 100000);
  ASSERT_TRUE(WaitForSteps("job", 20));
  EXPECT_EQ(Ctl({"job", "pause", "job"}).out, "PAUSING  job\n");
  ASSERT_TRUE(WaitForState("job", "PAUSED"));
  const int paused_at = LastCheckpoint(GetJob("job"));
  EXPECT_GE(paused_at, 20);
  EXPECT_EQ(Ctl({"job", "resume", "job"}).code, kOk);
  ASSERT_TRUE(WaitForSteps("job", paused_at + 1));
  EXPECT_EQ(Ctl({"job", "cancel", "job", "--keep"}).code, kOk);
  ASSERT_TRUE(WaitForState("job", "CANCELLED"));
  const int kept = LastCheckpoint(GetJob("job"));
  EXPECT_GT(kept, paused_at);
  const CtlResult retried = Ctl({"job", "retry", "job", "--id", "again"});
  EXPECT_EQ(retried.code, kOk) << retried.err;
  ASSERT_TRUE(WaitForSteps("again", kept + 1));
  EXPECT_EQ(GetJob("again")["trainingStatus"]["retryOf"], "projects/default/jobs/job");
}

TEST_F(ServiceSickTest, BackupOfALiveServerIsRestoredWithWhatWasThere) {
  ASSERT_TRUE(StartNerfd({"--no-local-worker"})) << nerfd().err();
  CreateSmallScene();
  CreateSteps("before", 10);
  const CtlResult backup = Ctl({"backup", "--id", "monday", "-o", "json"});
  ASSERT_EQ(backup.code, kOk) << backup.err;
  const std::string path = backup.json()["path"];
  EXPECT_GT(backup.json()["blobs"], 0);
  CreateSteps("after", 10);
  nerfd().Kill(SIGTERM);
  ASSERT_TRUE(nerfd().Wait(kLong).has_value());
  std::vector<std::string> flags = {"--data-dir",        dir_ / "restored", "--restore", path,
                                    "--no-local-worker", "--web-listen",    "none"};
  for (const std::string& flag : SamePorts()) flags.push_back(flag);
  const auto restored = Start("nerfd", flags);
  EXPECT_TRUE(WaitUntil(kLong, [&] {
    return Ctl({"job", "show", "before"}).code == kOk;
  })) << restored->err();
  EXPECT_EQ(Ctl({"job", "show", "after"}).code, kNotFound);
  EXPECT_EQ(Ctl({"scene", "show", "small"}).code, kOk);
  StartWorker("one", "--step-ms=1", dir_ / "restored/worker.token");
  EXPECT_TRUE(WaitForState("before", "SUCCEEDED"));
}

// A volume of its own for the data folder, which the test fills.
class ServiceFullDiskTest : public ServiceSickTest {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(data_dir());
    if (mount("none", data_dir().c_str(), "tmpfs", 0, "size=256m") != 0) {
      GTEST_SKIP() << "may not mount a volume";
    }
    is_mounted_ = true;
  }
  void TearDown() override {
    server_.reset();
    ServiceSickTest::TearDown();
    if (is_mounted_) umount2(data_dir().c_str(), MNT_DETACH);
  }

  void Fill() {
    const int fd = open(FillFile().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const std::string zeros(1 << 20, '\0');
    for (size_t size = zeros.size(); size > 0;) {
      if (write(fd, zeros.data(), size) <= 0) size /= 2;
    }
    close(fd);
  }
  void Empty() { std::filesystem::remove(FillFile()); }
  std::string FillFile() const { return data_dir() + "/fill"; }

  std::unique_ptr<BinaryProcess> server_;
  bool is_mounted_ = false;
};

TEST_F(ServiceFullDiskTest, ReadsCancelAndDeleteGoOnAndWritesReturnWithinTenSecondsOfRoom) {
  ASSERT_TRUE(StartNerfd({"--no-local-worker"})) << nerfd().err();
  CreateSmallScene();
  for (const char* id : {"a", "b", "c"}) CreateSteps(id, 10);
  ASSERT_EQ(Ctl({"job", "cancel", "c"}).code, kOk);
  BinaryProcess& watch = StartWatch("a");
  ASSERT_TRUE(WaitUntil(kLong, [&] { return !watch.lines().empty(); }));

  Fill();
  const CtlResult refused = Ctl({"job", "create", "small", "--id", "d", "--steps", "10"});
  EXPECT_NE(refused.code, kOk);
  EXPECT_THAT(refused.err, HasSubstr("full"));
  EXPECT_TRUE(WaitUntil(
      kLong, [&] { return Metrics().find("nerfd_store_read_only 1") != std::string::npos; }));
  EXPECT_EQ(GetJob("a")["state"], "QUEUED");
  EXPECT_EQ(Ctl({"job", "cancel", "a"}).code, kOk);
  EXPECT_EQ(Ctl({"job", "rm", "c"}).code, kOk);
  EXPECT_TRUE(WaitUntil(kLong, [&] { return Seen(watch).States().back() == "CANCELLED"; }));
  EXPECT_EQ(CountJobs("QUEUED"), 1u);

  Empty();
  const absl::Time room = absl::Now();
  EXPECT_TRUE(WaitUntil(absl::Seconds(20 * kSlower), [&] {
    return Metrics().find("nerfd_store_read_only 0") != std::string::npos;
  }));
  CreateSteps("d", 10);
  printf("writes again %.1f s after there was room\n", absl::ToDoubleSeconds(absl::Now() - room));
}

TEST_F(ServiceFullDiskTest, ServerStartsOnAFullDisk) {
  ASSERT_TRUE(StartNerfd({"--no-local-worker"})) << nerfd().err();
  CreateSmallScene();
  CreateSteps("a", 10);
  nerfd().Kill(SIGKILL);
  nerfd().Wait(kLong);
  Fill();
  std::vector<std::string> flags = {"--data-dir", data_dir(), "--no-local-worker", "--web-listen",
                                    "none"};
  for (const std::string& flag : SamePorts()) flags.push_back(flag);
  server_ = Start("nerfd", flags);
  EXPECT_TRUE(WaitUntil(absl::Seconds(20 * kSlower), [&] {
    return Ctl({"job", "show", "a"}).code == kOk;
  })) << server_->err();
  EXPECT_EQ(Ctl({"job", "cancel", "a"}).code, kOk);
  Empty();
  EXPECT_TRUE(WaitUntil(absl::Seconds(20 * kSlower), [&] {
    return Ctl({"job", "create", "small", "--id", "b", "--steps", "10"}).code == kOk;
  })) << server_->err();
}

}  // namespace
}  // namespace nerf
