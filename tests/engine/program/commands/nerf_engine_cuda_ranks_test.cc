// Runs nerf-engine with several ranks on CUDA devices, of which the host emulates two.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "tests/engine/program/commands/ball_dataset.h"
#include "tests/engine/program/commands/engine_gang.h"
#include "tests/engine/program/commands/engine_process.h"
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
const std::map<std::string, std::string> kSettings = {
    {"cuda_deterministic", "1"}, {"log2_hashmap_size", "12"},
    {"grid_resolution", "32"},   {"target_samples", "256"},
    {"initial_rays", "32"},      {"max_rays", "256"},
    {"warmup_steps", "10"},      {"step", "0.3"},
    {"initial_step_scale", "1"}};

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
    std::string settings;
    for (const auto& [key, value] : kSettings) settings += fmt::format(" --set {}={}", key, value);
    return fmt::format("train {} --out {} --steps {} --threads 1 --ranks {} --device {}{}",
                       reference_->dataset, out, kSteps, n_ranks, device, settings);
  }
  // The same as a worker asks for it.
  internal::WorkerRequest JobOf(const std::string& out) const {
    internal::WorkerRequest job;
    job.set_job(out);
    internal::Train& train = *job.mutable_train();
    train.set_dataset(reference_->dataset);
    train.set_out(dir_ / out);
    train.mutable_config()->set_method("ngp");
    train.mutable_config()->set_seed(1);
    train.mutable_config()->set_steps(kSteps);
    train.mutable_config()->mutable_settings()->insert(kSettings.begin(), kSettings.end());
    train.set_preview_interval_seconds(1e9);
    return job;
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

bool SameBytes(const std::string& a, const std::string& b) {
  const auto of_a = ReadFile(a, 1 << 30), of_b = ReadFile(b, 1 << 30);
  return of_a.ok() && of_b.ok() && *of_a == *of_b;
}

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
  ExpectError(Train("o", 9) + " --share-devices", 2,
              "--ranks: settings.cuda_deterministic: at most 8 ranks share a step, not 9");
  EXPECT_FALSE(std::filesystem::exists(dir_ / "o"));
}

// ---- Gangs: engines that workers have started.

TEST_F(NerfEngineCudaRanksTest, EnginesOfWorkersWriteTheFilesOfOneProcess) {
  EngineGang gang(kEngine, {"cuda:0", "cuda:1"});
  const auto ended = gang.Train(JobOf("gang"));
  for (const EngineGang::Outcome& rank : ended) EXPECT_TRUE(rank.IsDone()) << rank.Error();
  EXPECT_TRUE(ended[1].checkpoint.empty());  // rank 0 writes
  EXPECT_TRUE(SameBytes(ended[0].checkpoint, reference_->dir / "one/checkpoint.safetensors"));
  EXPECT_TRUE(SameBytes(ended[0].model, reference_->dir / "one/model.safetensors"));
}

TEST_F(NerfEngineCudaRanksTest, EnginesOnDevicesOfTwoKindsDoNotTrainTogether) {
  EngineGang gang(kEngine, {"cuda:0", "cpu"});
  // Neither kind refuses this config.
  internal::WorkerRequest job = JobOf("mixed");
  job.mutable_train()->mutable_config()->mutable_settings()->erase("cuda_deterministic");
  for (const EngineGang::Outcome& rank : gang.Train(job)) {
    EXPECT_NE(rank.Error().find("rank 1 trains something else: kind of device (--device): cpu, "
                                "rank 0 has cuda"),
              std::string::npos)
        << rank.Error();
  }
  const auto ended = gang.Train(JobOf("deterministic"));
  EXPECT_EQ(ended[1].Error(),
            "settings.cuda_deterministic: device cpu does not honor it; leave it at 0");
  EXPECT_EQ(ended[0].Error(), "rank 1: " + ended[1].Error());
}

TEST_F(NerfEngineCudaRanksTest, ARankWhoseTextSaysSomethingElseEndsTheTraining) {
  EngineGang gang(kEngine, {"cuda:0", "cuda:1"});
  const std::string device = "kind of device (--device)\t";
  const auto told_by_rank_1 = [&](const std::function<void(std::string*, size_t)>& change) {
    const auto ended = gang.Train(JobOf("hostile"), [&](uint32_t rank, std::string text) {
      const size_t at = text.find(device);
      if (rank == 1 && at != std::string::npos) change(&text, at);
      return text;
    });
    for (const EngineGang::Outcome& rank : ended) {
      EXPECT_FALSE(rank.Error().empty());
      EXPECT_TRUE(rank.checkpoint.empty());
    }
    return ended[0].Error();
  };
  EXPECT_EQ(told_by_rank_1(
                [&](std::string* text, size_t at) { text->replace(at + device.size(), 4, "cpu"); }),
            "rank 1 trains something else: kind of device (--device): cpu, rank 0 has cuda");
  EXPECT_EQ(told_by_rank_1([&](std::string* text, size_t at) {
              text->replace(at + device.size(), 4, std::string(200'000, 'x'));
            }),
            "rank 1 trains something else: kind of device (--device): " + std::string(64, 'x') +
                ", rank 0 has cuda");
  EXPECT_NE(told_by_rank_1([&](std::string* text, size_t at) {
              text->replace(at + device.size(), 4, "\xff\xfe\x01");
            }).find("kind of device (--device): "),
            std::string::npos);
  EXPECT_EQ(told_by_rank_1([&](std::string* text, size_t at) { text->resize(at); }),
            "rank 1 trains something else: kind of device (--device): , rank 0 has cuda");
  EXPECT_EQ(told_by_rank_1([](std::string* text, size_t) {
              text->clear();
            }).substr(0, std::string("rank 1 trains something else: ").size()),
            "rank 1 trains something else: ");
  // The engines are as good as before.
  internal::WorkerRequest after = JobOf("after");
  after.mutable_train()->mutable_config()->set_steps(2);
  for (const EngineGang::Outcome& rank : gang.Train(after))
    EXPECT_TRUE(rank.IsDone()) << rank.Error();
}

TEST_F(NerfEngineCudaRanksTest, AGangOfMoreRanksThanLanesIsRefusedBeforeAnyoneIsTold) {
  EngineGang gang(kEngine, {"cuda:0"});
  gang.PretendRanks(9);
  const EngineGang::Outcome nine = gang.Train(JobOf("nine")).front();
  EXPECT_EQ(nine.Error(),
            "--ranks: settings.cuda_deterministic: at most 8 ranks share a step, not 9");
  EXPECT_EQ(nine.n_texts, 0u);
  gang.PretendRanks(33);
  EXPECT_NE(gang.Train(JobOf("many")).front().Error().find("ranks.count"), std::string::npos);
}

}  // namespace
}  // namespace nerf
