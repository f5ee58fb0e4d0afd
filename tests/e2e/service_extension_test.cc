// Trainings that go on beyond their budget, on the built binaries: what a worker that is killed, a
// pause and a second try leave is what one engine writes that does the same at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/process/exit_code.h"
#include "tests/e2e/service_harness.h"

namespace nerf {
namespace {

using testing::HasSubstr;

constexpr char kUuid[] = "6fa459ea-ee8a-4ca4-894e-db77e160355e";

class ServiceExtensionTest : public ServiceTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(StartNerfd({"--checkpoint-interval", "200ms"})) << nerfd().err();
    scene_ = SmallScene();
    ASSERT_EQ(Ctl({"scene", "create", scene_, "--id", "small"}).code, kOk);
  }

  // The file of the newest checkpoint or its model in nerfd's folder.
  std::string FileOf(const Json& job, const std::string& blob) const {
    const std::string sha256 = job["trainingStatus"]["checkpoints"].back()[blob]["sha256"];
    return data_dir() + "/blobs/" + sha256.substr(0, 2) + "/" + sha256;
  }
  // What nerf-engine makes of the job's last checkpoint by the same new total: the bytes of
  // checkpoint and model.
  std::pair<std::string, std::string> ExtendLocally(const Json& job, const std::string& steps) {
    const std::string out = dir_ / "local-" + job["name"].get<std::string>().substr(22);
    const auto engine =
        Start("nerf-engine", {"train", scene_, "--resume", FileOf(job, "checkpointBlob"), "--steps",
                              steps, "--out", out, "--threads", "1", "--no-eval"});
    EXPECT_EQ(engine->Wait(kLong), kOk) << engine->err();
    return {ReadWholeFile(out + "/checkpoint.safetensors"),
            ReadWholeFile(out + "/model.safetensors")};
  }
  void ExpectBytes(const Json& job, const std::pair<std::string, std::string>& expected) {
    EXPECT_FALSE(expected.first.empty());
    EXPECT_TRUE(ReadWholeFile(FileOf(job, "checkpointBlob")) == expected.first);
    EXPECT_TRUE(ReadWholeFile(FileOf(job, "modelBlob")) == expected.second);
  }
  size_t CountJobs() {
    const std::string names = Ctl({"job", "ls", "--limit", "0", "-o", "name"}).out;
    return static_cast<size_t>(std::count(names.begin(), names.end(), '\n'));
  }

  std::string scene_;
};

TEST_F(ServiceExtensionTest, FinishedTrainingGoesOnThroughAPauseAndAKilledWorkerToTheSameBytes) {
  ASSERT_EQ(CreateJob("first", {"--steps", "300", "--seed", "7"}).code, kOk);
  ASSERT_TRUE(WaitForState("first", "SUCCEEDED"));
  const Json first = GetJob("first");
  const auto expected = ExtendLocally(first, "1500");

  const std::vector<std::string> extend = {"job",  "extend", "first",        "--steps", "1500",
                                           "--id", "more",   "--request-id", kUuid};
  const CtlResult extended = Ctl(extend);
  ASSERT_EQ(extended.code, kOk) << extended.err;
  const CtlResult repeated = Ctl(extend);
  EXPECT_EQ(repeated.code, kOk) << repeated.err;
  EXPECT_THAT(repeated.out, HasSubstr(" more\n"));
  EXPECT_EQ(CountJobs(), 2u);
  EXPECT_EQ(GetJob("more")["trainingStatus"]["extensionOf"], "projects/default/jobs/first");
  EXPECT_GE(LastCheckpoint(GetJob("more")), 300);

  ASSERT_TRUE(WaitForJob("more", [](const Json& job) { return LastCheckpoint(job) > 300; }));
  const pid_t worker = WaitForOnly("nerf-worker");
  ASSERT_NE(worker, 0);
  kill(worker, SIGKILL);
  ASSERT_TRUE(WaitForJob("more", [](const Json& job) { return job["attempt"] == 2; }));
  ASSERT_TRUE(WaitForSteps("more", LastCheckpoint(GetJob("more")) + 1));
  EXPECT_EQ(Ctl({"job", "pause", "more"}).code, kOk);
  ASSERT_TRUE(WaitForState("more", "PAUSED"));
  EXPECT_LT(LastCheckpoint(GetJob("more")), 1500) << "the training is too short for this test";
  EXPECT_EQ(Ctl({"job", "resume", "more"}).code, kOk);
  ASSERT_TRUE(WaitForState("more", "SUCCEEDED"));
  const Json more = GetJob("more");
  EXPECT_EQ(LastCheckpoint(more), 1500);
  ExpectBytes(more, expected);
  // A call that comes late names the job that is there.
  EXPECT_EQ(Ctl(extend).code, kOk);
  EXPECT_EQ(CountJobs(), 2u);
  EXPECT_EQ(GetJob("first")["trainingStatus"]["checkpoints"],
            first["trainingStatus"]["checkpoints"]);
}

TEST_F(ServiceExtensionTest, StoppedTrainingGoesOnToAnotherTotalThanItHad) {
  ASSERT_EQ(CreateJob("first", {"--steps", "100000"}).code, kOk);
  const CtlResult early = Ctl({"job", "extend", "first", "--steps", "200000"});
  EXPECT_EQ(early.code, kWrongState) << early.err;
  ASSERT_TRUE(WaitForSteps("first", 100));
  EXPECT_EQ(Ctl({"job", "cancel", "first", "--keep"}).code, kOk);
  ASSERT_TRUE(WaitForState("first", "CANCELLED"));
  const Json first = GetJob("first");
  const int stopped_at = LastCheckpoint(first);
  ASSERT_GE(stopped_at, 100);
  const CtlResult spent = Ctl({"job", "extend", "first", "--steps", std::to_string(stopped_at)});
  EXPECT_EQ(spent.code, kUsage);
  EXPECT_THAT(spent.err, HasSubstr("must be above the " + std::to_string(stopped_at) + " steps"));

  const std::string total = std::to_string(stopped_at + 500);
  const auto expected = ExtendLocally(first, total);
  ASSERT_EQ(Ctl({"job", "extend", "first", "--steps", total, "--id", "more"}).code, kOk);
  ASSERT_TRUE(WaitForState("more", "SUCCEEDED"));
  ExpectBytes(GetJob("more"), expected);
  const std::string shown = Ctl({"job", "show", "more"}).out;
  EXPECT_THAT(shown, HasSubstr("projects/default/jobs/first"));
  EXPECT_THAT(shown, HasSubstr(total + " steps"));
}

}  // namespace
}  // namespace nerf
