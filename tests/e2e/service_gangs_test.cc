// Two workers train one job together, and each of the processes is killed in turn. The result has
// the bytes of one worker alone, on CPUs and on the CUDA devices that the host emulates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "common/process/exit_code.h"
#include "tests/e2e/service_harness.h"
#include "tests/engine/program/commands/ball_dataset.h"

namespace nerf {
namespace {

using testing::HasSubstr;

class ServiceGangsTest : public ServiceTest {
 protected:
  static constexpr absl::Duration kVeryLong = absl::Seconds(480 * kSlower);

  // Checkpoints come often, so that few steps are enough for all kills.
  static std::vector<std::string> Flags() {
    return {"--no-local-worker", "--checkpoint-interval", "200ms", "--lease-ttl", "3s"};
  }

  void SetUp() override {
    ASSERT_TRUE(StartNerfd(Flags())) << nerfd().err();
    CreateSmallScene();
  }

  void StartWorker(const std::string& name, const std::vector<std::string>& flags = {}) {
    std::vector<std::string> arguments = {"--server",  address(),   "--cache-dir",
                                          dir_ / name, "--threads", "1"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    workers_[name] = Start("nerf-worker", arguments);
  }

  // The engine with two emulated devices, installed as the real one is, with the library of its
  // ranks.
  std::string EmulatedEngine() {
    namespace fs = std::filesystem;
    const fs::path root = dir_ / "emulated";
    if (!fs::exists(root)) {
      fs::create_directories(root / "bin");
      fs::create_directories(root / "lib");
      fs::copy_file(NERF_EMULATED_ENGINE, root / "bin/nerf-engine");
      fs::copy_file(NERF_GLOO_LIBRARY, root / "lib/libnerf_gloo.so");
    }
    return root / "bin/nerf-engine";
  }
  void StartCudaWorker(const std::string& name, const std::string& device) {
    StartWorker(name, {"--device", device, "--engine", EmulatedEngine()});
  }
  bool WaitForWorkers(size_t n) {
    return WaitUntil(kLong, [&] {
      const Json workers = Ctl({"worker", "ls", "-o", "json"}).json();
      return workers.is_array() && workers.size() == n;
    });
  }

  // "workers/ID", as soon as the worker has an id.
  std::string IdOf(const std::string& name) {
    std::string id;
    EXPECT_TRUE(WaitUntil(kLong, [&] {
      id = ReadWholeFile(dir_ / name + "/worker_id");
      return !id.empty();
    }));
    while (!id.empty() && id.back() == '\n') id.pop_back();
    return "workers/" + id;
  }

  // Steps that worker "a" takes in about six seconds, whatever else runs on this machine.
  std::string StepsOfSixSeconds() {
    EXPECT_EQ(CreateJob("rate", {"--seconds", "2"}).code, kOk);
    EXPECT_TRUE(WaitForState("rate", "SUCCEEDED", kVeryLong));
    return std::to_string(std::clamp(StepOf(GetJob("rate")) * 6 / 2, 60, 8000));
  }

  // A machine that has become faster may end the training before all kills.
  bool HasEnded() { return GetJob("gang")["state"] == "SUCCEEDED"; }

  // Which of our workers has the rank now.
  std::string NameOfRank(size_t rank) {
    const Json members = GetJob("gang")["trainingStatus"]["members"];
    if (members.size() <= rank) return "";
    for (const auto& [name, process] : workers_) {
      if (IdOf(name) == members[rank]["worker"]) return name;
    }
    return "";
  }

  pid_t EngineOf(const std::string& worker) {
    for (const pid_t pid : MarkedProcesses("nerf-engine")) {
      const std::string stat = ReadWholeFile("/proc/" + std::to_string(pid) + "/stat");
      std::istringstream fields(stat.substr(stat.rfind(')') + 1));
      std::string state;
      pid_t parent = 0;
      fields >> state >> parent;
      if (parent == workers_.at(worker)->pid()) return pid;
    }
    return 0;
  }

  // True at the end of the job, too.
  bool WaitForNewCheckpoint() {
    const int before = LastCheckpoint(GetJob("gang"));
    return WaitForJob(
        "gang",
        [&](const Json& job) {
          return job["state"] == "SUCCEEDED" ||
                 (job["state"] == "RUNNING" && LastCheckpoint(job) > before);
        },
        kVeryLong);
  }

  std::string ModelOf(const std::string& job) {
    const Json checkpoints = GetJob(job)["trainingStatus"]["checkpoints"];
    return checkpoints.empty() ? "" : checkpoints.back()["modelBlob"]["sha256"].get<std::string>();
  }

  // Waits until the gang has broken and trains again.
  void ExpectGoesOn(int attempt_before) {
    EXPECT_TRUE(WaitForJob(
        "gang",
        [&](const Json& job) {
          return job["state"] == "SUCCEEDED" ||
                 (job["state"] == "RUNNING" && job["attempt"].get<int>() > attempt_before);
        },
        kVeryLong));
  }
  int Attempt() { return GetJob("gang")["attempt"].get<int>(); }

  std::map<std::string, std::unique_ptr<BinaryProcess>> workers_;
};

TEST_F(ServiceGangsTest, BytesAreThoseOfOneWorkerThoughEachProcessIsKilled) {
  StartWorker("a");
  const std::vector<std::string> budget = {"--steps", StepsOfSixSeconds(), "--seed", "7"};
  ASSERT_EQ(CreateJob("alone", budget).code, kOk);
  ASSERT_TRUE(WaitForState("alone", "SUCCEEDED", kVeryLong));
  EXPECT_TRUE(GetJob("alone")["trainingStatus"]["members"].empty());

  std::vector<std::string> for_two = budget;
  for_two.insert(for_two.end(), {"--workers", "2"});
  ASSERT_EQ(CreateJob("gang", for_two).code, kOk);
  EXPECT_THAT(GetJob("gang")["wait"]["message"].get<std::string>(), HasSubstr("needs 2 workers"));
  StartWorker("b");
  ASSERT_TRUE(WaitForJob(
      "gang", [](const Json& job) { return job["trainingStatus"]["members"].size() == 2; },
      kVeryLong));
  const Json members = GetJob("gang")["trainingStatus"]["members"];
  EXPECT_EQ(members[0]["rank"], 0);
  EXPECT_NE(members[0]["worker"], members[1]["worker"]);
  EXPECT_FALSE(members[0]["host"].get<std::string>().empty());
  ASSERT_TRUE(WaitForNewCheckpoint());

  for (const size_t rank : {1, 0}) {
    const int attempt = Attempt();
    const std::string worker = NameOfRank(rank);
    const pid_t engine = worker.empty() ? 0 : EngineOf(worker);
    if (HasEnded()) break;
    ASSERT_GT(engine, 0) << worker;
    kill(engine, SIGKILL);
    ExpectGoesOn(attempt);
    ASSERT_TRUE(WaitForNewCheckpoint());
  }
  // Another worker takes the place of a lost one.
  for (const size_t rank : {1, 0}) {
    const std::string lost = NameOfRank(rank), name = lost + "2";
    if (HasEnded()) break;
    ASSERT_NE(lost, "");
    const std::string lost_id = IdOf(lost);
    const int attempt = Attempt();
    workers_[lost]->Kill(SIGKILL);
    ASSERT_TRUE(WaitForJob(
        "gang",
        [](const Json& job) { return job["state"] == "QUEUED" || job["state"] == "SUCCEEDED"; },
        kVeryLong));
    if (HasEnded()) break;
    EXPECT_EQ(GetJob("gang")["queueReason"], "WORKER_LOST");
    EXPECT_EQ(GetJob("gang")["queueMessage"],
              "rank " + std::to_string(rank) + " (worker " + lost_id.substr(8) + ") was lost");
    workers_.erase(lost);
    StartWorker(name);
    ExpectGoesOn(attempt);
    ASSERT_TRUE(WaitForNewCheckpoint());
  }
  nerfd().Kill(SIGKILL);
  std::vector<std::string> again = SamePorts();
  for (const std::string& flag : Flags()) again.push_back(flag);
  ASSERT_TRUE(StartNerfd(again)) << nerfd().err();
  ASSERT_TRUE(WaitForState("gang", "SUCCEEDED", kVeryLong));
  EXPECT_NE(ModelOf("alone"), "");
  EXPECT_EQ(ModelOf("gang"), ModelOf("alone"));
}

TEST_F(ServiceGangsTest, GangOnCudaDevicesHasTheBytesOfOneWorkerAlsoAfterALoss) {
  WriteBallDataset(dir_ / "ball");
  ASSERT_EQ(Ctl({"scene", "create", dir_ / "ball", "--id", "ball"}).code, kOk);
  const auto create = [&](const std::string& id, const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {"job",
                                          "create",
                                          "ball",
                                          "--id",
                                          id,
                                          "--seed",
                                          "7",
                                          "-o",
                                          "json",
                                          "--steps",
                                          "40",
                                          "--set",
                                          "cuda_deterministic=1"};
    for (const char* setting :
         {"log2_hashmap_size=12", "grid_resolution=32", "step=0.3", "initial_step_scale=1",
          "target_samples=256", "initial_rays=32", "max_rays=256"}) {
      arguments.insert(arguments.end(), {"--set", setting});
    }
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return Ctl(arguments);
  };
  StartCudaWorker("a", "cuda:0");
  ASSERT_EQ(create("alone", {}).code, kOk);
  ASSERT_TRUE(WaitForState("alone", "SUCCEEDED", kVeryLong));

  // A worker on a CPU is no member, though it is free.
  StartWorker("on-cpu");
  ASSERT_TRUE(WaitForWorkers(2));
  ASSERT_EQ(create("gang", {"--workers", "2"}).code, kOk);
  EXPECT_EQ(GetJob("gang")["wait"]["message"],
            "it needs 2 workers that can train together on CUDA devices of one kind; there is 1");
  StartCudaWorker("b", "cuda:1");
  ASSERT_TRUE(WaitForNewCheckpoint());
  const int attempt = Attempt();
  const std::string lost = NameOfRank(1);
  EXPECT_TRUE(lost == "a" || lost == "b") << lost;
  const pid_t engine = EngineOf(lost);
  ASSERT_GT(engine, 0);
  kill(engine, SIGKILL);
  ExpectGoesOn(attempt);
  ASSERT_TRUE(WaitForState("gang", "SUCCEEDED", kVeryLong));
  EXPECT_GT(Attempt(), attempt);
  EXPECT_NE(ModelOf("alone"), "");
  EXPECT_EQ(ModelOf("gang"), ModelOf("alone"));

  const CtlResult many = create("many", {"--workers", "2..9"});
  EXPECT_EQ(many.code, kUsage);
  EXPECT_THAT(many.err, HasSubstr("settings.cuda_deterministic: at most 8 ranks share a step"));
}

TEST_F(ServiceGangsTest, MethodThatCannotBeSplitIsRefusedByName) {
  const CtlResult refused = Ctl({"job", "create", "small", "--method", "voxels", "--workers", "2"});
  EXPECT_EQ(refused.code, kUsage) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("method voxels cannot be split among ranks"));
  EXPECT_THAT(Ctl({"job", "create", "small", "--workers", "2..1"}).err, HasSubstr("--workers"));
}

}  // namespace
}  // namespace nerf
