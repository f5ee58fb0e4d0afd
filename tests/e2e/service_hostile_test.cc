// Two projects on one worker, one of which has taken its engine over (hostile_thread.cc). The other
// one's models have the bytes of an undisturbed worker. NERF_HOSTILE_SECONDS=600 tries longer.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "common/process/sandbox_support.h"
#include "tests/e2e/service_harness.h"

namespace nerf {
namespace {

class ServiceHostileTest : public ServiceTest {
 protected:
  // The small scene with a picture whose name takes the engine over.
  std::string HostileScene() {
    namespace fs = std::filesystem;
    const std::string scene = SmallScene();
    const std::string list = scene + "/transforms_train.json";
    Json transforms = Json::parse(ReadWholeFile(list));
    const std::string name = transforms["frames"][0]["file_path"];
    fs::rename(fs::path(scene) / (name + ".png"), fs::path(scene) / "train/hostile.png");
    transforms["frames"][0]["file_path"] = "./train/hostile";
    std::ofstream(list) << transforms;
    return scene;
  }

  // Trains to the end; the model's digest, or the state if it has none.
  std::string Train(const std::string& id, const std::string& method = "ngp",
                    const std::string& steps = "60") {
    const CtlResult created = CreateJob(id, {"--method", method, "--steps", steps, "--seed", "3"});
    EXPECT_EQ(created.code, 0) << created.err;
    if (!WaitForState(id, "SUCCEEDED")) return GetJob(id)["state"];
    return GetJob(id)["trainingStatus"]["checkpoints"].back()["modelBlob"]["sha256"];
  }

  // A view of the undisturbed model: its file's bytes.
  std::string Render(const std::string& folder) {
    const CtlResult rendered = Ctl({"render", "--job", "undisturbed", "--orbit", "1", "--width",
                                    "48", "--height", "48", "--out", dir_ / folder});
    EXPECT_EQ(rendered.code, 0) << rendered.err;
    return ReadWholeFile(dir_ / folder + "/rgb_0000.png");
  }

  // The other project's job.
  void StartHostile(const std::string& id) {
    const CtlResult created =
        CreateJob(id, {"--seconds", "3", "--seed", "3", "--project", "other"}, "bad");
    ASSERT_EQ(created.code, 0) << created.err;
    EXPECT_TRUE(WaitUntil(kLong, [&] { return StateOfHostile(id) == "RUNNING"; }));
  }
  std::string StateOfHostile(const std::string& id) {
    const Json job = Ask("JobService/GetJob", {{"name", "projects/other/jobs/" + id}});
    return job.is_object() ? job.value("state", "") : "unknown";
  }

  // All that the hostile engines have written to files of this name.
  std::string Written(const std::string& name) const {
    std::string all;
    for (const auto& room : std::filesystem::directory_iterator(dir_ / "worker/rooms")) {
      all += ReadWholeFile(room.path() / "jobs" / name);
    }
    return all;
  }
};

TEST_F(ServiceHostileTest, EngineThatWasTakenOverHarmsNoOtherProject) {
  if (LandlockVersion() < 6) GTEST_SKIP() << "this kernel has no Landlock of version 6";
  const char* const given = std::getenv("NERF_HOSTILE_SECONDS");
  const absl::Duration duration = absl::Seconds(given == nullptr ? 5 : std::atoi(given));
  ASSERT_TRUE(StartNerfd({"--no-local-worker"})) << nerfd().err();
  CreateSmallScene();
  const CtlResult created =
      Ctl({"scene", "create", HostileScene(), "--id", "bad", "--project", "other"});
  ASSERT_EQ(created.code, 0) << created.err;
  setenv("NERF_TEST_ROOMS", (dir_ / "worker/rooms").c_str(), 1);
  const auto worker = Start("nerf-worker", {"--server", address(), "--cache-dir", dir_ / "worker",
                                            "--engine", HOSTILE_NERF_ENGINE});
  unsetenv("NERF_TEST_ROOMS");

  const std::string undisturbed = Train("undisturbed"), view = Render("undisturbed");
  EXPECT_NE(view, "");
  const absl::Time end = absl::Now() + duration;
  int n_attempts = 0;
  // Busy machines take longer until it has attacked a few times.
  for (int round = 0;
       absl::Now() < end || (n_attempts <= 10 && absl::Now() < end + absl::Minutes(5)); ++round) {
    const std::string number = std::to_string(round), hostile = "hostile-" + number;
    StartHostile(hostile);
    // Beside it, in an engine of its own.
    EXPECT_EQ(Render("beside-" + number), view);
    EXPECT_EQ(Written("successes"), "");
    n_attempts += std::atoi(Written("attempts").c_str());
    // After it, from the same cached pictures.
    EXPECT_EQ(Train("after-" + number), undisturbed);
    EXPECT_EQ(StateOfHostile(hostile), "SUCCEEDED");
  }
  EXPECT_GT(n_attempts, 10);
  EXPECT_EQ(std::filesystem::status(dir_ / "worker").permissions(),
            std::filesystem::perms::owner_all);
  std::printf("%d attacks, all refused\n", n_attempts);
  EXPECT_EQ(worker->Wait(absl::ZeroDuration()), std::nullopt) << worker->err();
}

// Ranks: service_gangs_test.cc.
TEST_F(ServiceHostileTest, EnginesInTheSandboxWriteTheBytesOfThoseOutsideIt) {
  ASSERT_TRUE(StartNerfd({"--no-local-worker"})) << nerfd().err();
  CreateSmallScene();
  std::map<std::string, std::string> models;
  for (const char* where : {"inside", "outside"}) {
    std::vector<std::string> flags = {"--server", address(), "--cache-dir", dir_ / where};
    if (where == std::string("outside")) flags.emplace_back("--no-engine-sandbox");
    const auto worker = Start("nerf-worker", flags);
    for (const char* method : {"ngp", NERF_LIBTORCH_METHODS}) {
      const std::string model = Train(fmt::format("{}-{}", method, where), method, "10");
      EXPECT_EQ(model.size(), 64u) << method << " " << where << ": " << model;
      const auto [first, is_first] = models.emplace(method, model);
      EXPECT_EQ(first->second, model) << method;
    }
  }
}

}  // namespace
}  // namespace nerf
