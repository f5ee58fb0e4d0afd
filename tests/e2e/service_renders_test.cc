// Large render jobs that are cancelled at random moments, with small work beside and behind them on
// the same worker: nothing of a cancelled job reaches the work of others.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>

#include "common/process/exit_code.h"
#include "tests/e2e/service_harness.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

using Files = std::map<std::string, std::string>;  // bytes by name

class ServiceRendersTest : public ServiceTest {
 protected:
  static constexpr int kFrames = 20;

  void SetUp() override {
    ASSERT_TRUE(StartNerfd()) << nerfd().err();
    CreateSmallScene();
    ASSERT_EQ(CreateJob("first", {"--steps", "50", "--seed", "1"}).code, kOk);
    ASSERT_TRUE(WaitForState("first", "SUCCEEDED"));
    const CtlResult promoted = Ctl({"model", "promote", "first", "--id", "m"});
    ASSERT_EQ(promoted.code, kOk) << promoted.err;
  }

  static int FromEnvironment(const char* name, int absent) {
    const char* const text = std::getenv(name);
    return text == nullptr ? absent : std::atoi(text);
  }

  void Create(const std::string& id, int frames, int width, int height) {
    const CtlResult created =
        Ctl({"job", "render", "m", "--id", id, "--frames", std::to_string(frames), "--width",
             std::to_string(width), "--height", std::to_string(height), "--path", "orbit",
             "--no-movie"});
    ASSERT_EQ(created.code, kOk) << created.err;
  }
  void CreateSmall(const std::string& id) { Create(id, kFrames, 64, 64); }

  std::string StateOf(const std::string& id) {
    const Json job = Ask("JobService/GetJob", {{"name", "projects/default/jobs/" + id}});
    return job.is_object() ? job.value("state", "") : "unknown";
  }

  Files FramesOf(const std::string& id) {
    const std::string folder = dir_ / id;
    const CtlResult fetched =
        Ctl({"--timeout", std::to_string(60 * kSlower) + "s", "job", "fetch", id, "--out", folder},
            absl::Seconds(70 * kSlower));
    EXPECT_EQ(fetched.code, kOk) << id << " is " << StateOf(id) << ": " << fetched.err;
    Files files;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      files[entry.path().filename()] = ReadWholeFile(entry.path());
    }
    fs::remove_all(folder, ignored);
    return files;
  }

  // Files below the folders of jobs of the local worker.
  std::vector<std::string> FilesOfJobs() const {
    std::vector<std::string> files;
    std::error_code ignored;
    for (const auto& entry : fs::recursive_directory_iterator(data_dir(), ignored)) {
      const std::string path = entry.path();
      if (path.find("/rooms/") != std::string::npos && path.find("/jobs/") != std::string::npos)
        files.push_back(path);
    }
    return files;
  }
};

TEST_F(ServiceRendersTest, CancelledRendersLeaveTheWorkOfOthersAlone) {
  const int n_rounds = FromEnvironment("NERF_RENDER_ROUNDS", 3);
  const auto seed = static_cast<unsigned>(FromEnvironment("NERF_RENDER_SEED", 1));
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  CreateSmall("reference");
  const Files reference = FramesOf("reference");
  ASSERT_EQ(reference.size(), static_cast<size_t>(kFrames));
  const std::pair<int, int> sizes[] = {{16000, 4000}, {3000, 2000}, {1920, 1080}, {300, 200}};
  absl::Duration slowest_cancel, slowest_job;
  for (int round = 0; round < n_rounds && !HasFailure(); ++round) {
    const std::string name = std::to_string(round);
    // Half of the rounds have frames that take far longer than the round.
    const auto [width, height] = sizes[round % 2 == 0 ? 0 : 1 + below(3)];
    const absl::Duration cancelled_after = absl::Milliseconds(below(3000));
    SCOPED_TRACE(testing::Message() << "round " << round << " of seed " << seed << ": " << width
                                    << "x" << height << ", cancelled after " << cancelled_after);
    Create("large-" + name, 3600, width, height);
    const bool is_beside = below(2) == 0;
    if (is_beside) CreateSmall("beside-" + name);
    WaitUntil(cancelled_after, [] { return false; });
    const std::string view = dir_ / ("still-" + name);
    BinaryProcess& still = StartCtl({"render", "--model", "m", "--orbit", "1", "--width", "64",
                                     "--height", "64", "--out", view});
    const absl::Time begin = absl::Now();
    ASSERT_EQ(Ctl({"job", "cancel", "large-" + name}).code, kOk);
    CreateSmall("after-" + name);
    EXPECT_TRUE(WaitUntil(absl::Seconds(20 * kSlower), [&] {
      return StateOf("large-" + name) == "CANCELLED";
    })) << StateOf("large-" + name);
    slowest_cancel = std::max(slowest_cancel, absl::Now() - begin);
    if (is_beside) {
      EXPECT_TRUE(FramesOf("beside-" + name) == reference);
    }
    EXPECT_TRUE(FramesOf("after-" + name) == reference);
    slowest_job = std::max(slowest_job, absl::Now() - begin);
    EXPECT_EQ(still.Wait(kLong), kOk) << still.err();
    EXPECT_EQ(Ctl({"job", "rm", "large-" + name, "after-" + name}).code, kOk);
  }
  std::printf("%d rounds: cancelled within %.1f s, small jobs within %.1f s\n", n_rounds,
              absl::ToDoubleSeconds(slowest_cancel), absl::ToDoubleSeconds(slowest_job));
  EXPECT_TRUE(WaitUntil(absl::Seconds(20), [&] { return FilesOfJobs().empty(); }))
      << FilesOfJobs().size();
}

}  // namespace
}  // namespace nerf
