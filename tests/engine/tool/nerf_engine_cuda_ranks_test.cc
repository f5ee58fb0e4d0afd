// Runs nerf-engine with several ranks on CUDA devices, of which the host emulates two.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "common/file_io.h"
#include "engine/tool/line_socket.h"
#include "fmt/format.h"
#include "tests/engine/tool/ball_dataset.h"
#include "tests/engine/tool/engine_process.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

constexpr char kEngine[] = NERF_EMULATED_ENGINE;

// What all trainings are compared with. A step takes a fifth of a second, so they are few.
struct Reference {
  Reference() { WriteBallDataset(dataset); }

  TempDir dir;
  const std::string dataset = dir / "ball";
  std::string said;  // by the training of one process
};
constexpr int kSteps = 20;  // past an update of the grid

class NerfEngineCudaRanksTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    reference_ = new Reference;
    EngineProcess process(TrainingOf(reference_->dir / "one", 1, "cuda:0") + " --json", kEngine);
    EXPECT_EQ(process.Wait(), 0) << process.said();
    reference_->said = process.said();
  }
  static void TearDownTestSuite() {
    delete reference_;
    reference_ = nullptr;
  }

  static std::string TrainingOf(const std::string& out, int n_ranks, const std::string& device) {
    return fmt::format(
        "train {} --out {} --steps {} --threads 1 --ranks {} --device {} "
        "--set cuda_deterministic=1 --set log2_hashmap_size=12 --set grid_resolution=32 "
        "--set target_samples=256 --set initial_rays=32 --set warmup_steps=10 --set step=0.3 "
        "--set initial_step_scale=1",
        reference_->dataset, out, kSteps, n_ranks, device);
  }
  std::string Train(const std::string& out, int n_ranks,
                    const std::string& device = "cuda:0") const {
    return TrainingOf(dir_ / out, n_ranks, device);
  }
  std::string Resume(const std::string& out, const std::string& device) const {
    return fmt::format("train {} --no-eval --threads 1 --device {} --resume {}",
                       reference_->dataset, device, dir_ / (out + "/checkpoint.safetensors"));
  }

  // Returns what it said. Exit code 0 is expected.
  std::string Run(const std::string& arguments) {
    EngineProcess process(arguments, kEngine);
    EXPECT_EQ(process.Wait(), 0) << process.said();
    return process.said();
  }

  void ExpectError(const std::string& arguments, int code, const std::string& message) {
    EngineProcess process(arguments, kEngine);
    EXPECT_EQ(process.Wait(), code) << process.said();
    EXPECT_NE(process.said().find(message), std::string::npos) << process.said();
  }

  bool SameAsOfOne(const std::string& out) const {
    return SameTrainingFiles(dir_ / out, reference_->dir / "one");
  }

  static Reference* reference_;
  TempDir dir_;
};

Reference* NerfEngineCudaRanksTest::reference_ = nullptr;

// The value of the last `"key":value` that was said; empty if there is none.
std::string LastValue(const std::string& said, const std::string& key) {
  const std::string name = fmt::format("\"{}\":", key);
  const size_t at = said.rfind(name);
  if (at == std::string::npos) return "";
  const size_t begin = at + name.size();
  return said.substr(begin, said.find_first_of(",}", begin) - begin);
}

TEST_F(NerfEngineCudaRanksTest, RanksWithADeviceEachWriteTheFilesAndThePsnrOfOne) {
  const std::string two = Run(Train("two", 2) + " --json");
  EXPECT_TRUE(SameAsOfOne("two"));
  EXPECT_NE(LastValue(reference_->said, "psnr"), "");
  EXPECT_EQ(LastValue(two, "psnr"), LastValue(reference_->said, "psnr"));
  const size_t end = two.find("\"forecast\":false");
  ASSERT_NE(end, std::string::npos) << two;
  const std::string before = two.substr(0, end);
  ASSERT_NE(before.find("\"forecast\":true"), std::string::npos) << two;
  EXPECT_NE(LastValue(before, "alone_samples_per_second"), "");
  // Every step sends the whole table, so that the forecast is good but for the grid's exchanges.
  const double forecast = std::stod(LastValue(before, "bytes_per_step"));
  const double measured = std::stod(LastValue(two, "bytes_per_step"));
  EXPECT_GT(measured, 4096 * 8 * 4);  // the table in half precision, a half of it from the other
  EXPECT_NEAR(forecast, measured, 0.05 * measured);
}

TEST_F(NerfEngineCudaRanksTest, AnotherNumberOfRanksGoesOnAlsoOnSharedDevices) {
  Run(Train("parts", 2) + " --no-eval --stop-after 7");
  Run(Resume("parts", "cuda:0") + " --ranks 3 --share-devices --stop-after 12");
  Run(Resume("parts", "cuda:1"));
  EXPECT_TRUE(SameAsOfOne("parts"));
}

TEST_F(NerfEngineCudaRanksTest, AKilledRankEndsTheOthersAndTheRunGoesOn) {
  EngineProcess process(Train("killed", 2) + " --no-eval --json --checkpoint-interval 0.02",
                        kEngine);
  ASSERT_TRUE(process.ReadUntil("\"checkpoint\"")) << process.said();
  const std::vector<pid_t> ranks = process.Ranks();
  ASSERT_EQ(ranks.size(), 1u);
  kill(ranks[0], SIGKILL);
  EXPECT_EQ(process.Wait(), 6) << process.said();
  EXPECT_NE(process.said().find("rank 1 was killed by signal 9; to go on: nerf-engine train "),
            std::string::npos)
      << process.said();
  EXPECT_NE(process.said().find(" --device cuda:0 --ranks 2"), std::string::npos) << process.said();
  Run(Resume("killed", "cuda:0") + " --ranks 2");
  EXPECT_TRUE(SameAsOfOne("killed"));
}

TEST_F(NerfEngineCudaRanksTest, RanksStartedOneByOneTakeTheDeviceThatTheyName) {
  const std::string meet =
      fmt::format(" --no-eval --rendezvous 127.0.0.1:{}", 24000 + getpid() % 1000);
  // Both have the last device: of ranks that one command starts, rank 1 would have a third one.
  EngineProcess second(Train("two", 2, "cuda:1") + " --rank 1" + meet, kEngine);
  Run(Train("two", 2, "cuda:1") + " --rank 0" + meet);
  EXPECT_EQ(second.Wait(), 0) << second.said();
  EXPECT_TRUE(SameAsOfOne("two"));
}

TEST_F(NerfEngineCudaRanksTest, ARankOnAnotherKindOfDeviceIsRefused) {
  const std::string meet =
      fmt::format(" --no-eval --rendezvous 127.0.0.1:{}", 24000 + getpid() % 1000);
  EngineProcess second(
      fmt::format("train {} --steps 5 --ranks 2 --rank 1 {}", reference_->dataset, meet), kEngine);
  EngineProcess first(fmt::format("train {} --out {} --steps 5 --ranks 2 --rank 0 --device cuda:0 "
                                  "{}",
                                  reference_->dataset, dir_ / "o", meet),
                      kEngine);
  EXPECT_EQ(first.Wait(), 7) << first.said();
  EXPECT_NE(first.said().find("rank 1 trains something else: kind of device (--device): cpu, rank "
                              "0 has cuda"),
            std::string::npos)
      << first.said();
  EXPECT_NE(second.Wait(), 0);
}

TEST_F(NerfEngineCudaRanksTest, WhatRanksCannotDoOnDevicesIsRefused) {
  ExpectError(Train("o", 3), 2,
              "--ranks 3: from cuda:0 on there are 2 devices; --share-devices lets ranks share");
  ExpectError(Train("o", 2, "cuda:2"), 2, "device cuda:2: ");
  ExpectError(Train("o", 2, "cuda:1"), 2, "--ranks 2: from cuda:1 on there is 1 device;");
  ExpectError(Train("o", 2) + " --feed central", 2, "--feed central: ranks on cuda:0 draw");
  ExpectError(Train("o", 2) + " --pictures file", 2, "--pictures file: device cuda:0");
  ExpectError(Train("o", 1) + " --share-devices", 2, "--share-devices needs --ranks N");
  ExpectError(
      fmt::format("train {} --out {} --ranks 2 --share-devices", reference_->dataset, dir_ / "o"),
      2, "--share-devices needs --device cuda:N");
  ExpectError(Train("o", 2) + " --share-devices --rank 0 --rendezvous 127.0.0.1:24000", 2,
              "--share-devices: with --rendezvous each rank has the device that it names");
  ExpectError(Train("o", 2) + " --method ngp-autograd", 2, "method ngp-autograd");
  ExpectError(Train("o", 9) + " --share-devices", 9,
              "--ranks 9: with cuda_deterministic at most 8 ranks share a step");
  EXPECT_FALSE(std::filesystem::exists(dir_ / "o"));
}

TEST_F(NerfEngineCudaRanksTest, TheEngineOfAWorkerRefusesAGang) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  fcntl(ours.get(), F_SETFD, FD_CLOEXEC);
  const timeval patience = {60, 0};
  setsockopt(ours.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  EngineProcess engine(fmt::format("serve --device cuda:0 --threads 1 --fd {}", theirs.get()),
                       kEngine);
  theirs = UniqueFd();
  const std::string message =
      fmt::format(R"({{"type":"train","job":"j","dataset":"{}","out":"{}","method":"ngp","seed":1,)"
                  R"("budget":{{"kind":"steps","amount":5}},"ranks":{{"rank":0,"count":2}}}})",
                  reference_->dataset, dir_ / "o");
  LineSocket socket(ours.get());
  ASSERT_TRUE(socket.Write(message + "\n"));
  std::string said;
  char buffer[4096];
  while (said.find("\"failed\"") == std::string::npos || !said.ends_with("\n")) {
    const ssize_t n = recv(ours.get(), buffer, sizeof(buffer), 0);
    if (n <= 0) break;
    said.append(buffer, static_cast<size_t>(n));
  }
  EXPECT_NE(said.find("a gang trains on CPUs, not on cuda:0"), std::string::npos) << said;
  EXPECT_NE(said.find("FEATURE_NOT_BUILT"), std::string::npos) << said;
  shutdown(ours.get(), SHUT_RDWR);
}

}  // namespace
}  // namespace nerf
