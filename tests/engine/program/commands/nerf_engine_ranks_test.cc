// Runs the built nerf-engine with several ranks.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/file_io.h"
#include "engine/methods/ngp_autograd/autograd_library.h"
#include "fmt/format.h"
#include "tests/engine/program/commands/ball_dataset.h"
#include "tests/engine/program/commands/engine_process.h"
#include "tests/testing/paths.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

class NerfEngineRanksTest : public ::testing::Test {
 protected:
  NerfEngineRanksTest() { WriteBallDataset(dataset_); }

  std::string Train(const std::string& out, int steps, int n_ranks) {
    return fmt::format(
        "train {} --out {} --steps {} --threads 1 --ranks {} --no-eval --set log2_hashmap_size=12 "
        "--set grid_resolution=32 --set target_samples=512 --set initial_rays=64 --set "
        "warmup_steps=10 --set step=0.05",
        dataset_, dir_ / out, steps, n_ranks);
  }

  // Exit code 0 is expected.
  void Run(const std::string& arguments) {
    EngineProcess process(arguments);
    EXPECT_EQ(process.Wait(), 0) << process.said();
  }

  void ExpectError(const std::string& arguments, int code, const std::string& message) {
    EngineProcess process(arguments);
    EXPECT_EQ(process.Wait(), code) << process.said();
    EXPECT_NE(process.said().find(message), std::string::npos) << process.said();
  }

  bool SameFiles(const std::string& a, const std::string& b) {
    return SameTrainingFiles(dir_ / a, dir_ / b);
  }

  TempDir dir_;
  const std::string dataset_ = dir_ / "ball";
};

TEST_F(NerfEngineRanksTest, AnyNumberOfRanksWritesTheSameFiles) {
  Run(Train("one", 60, 1));
  for (int n_ranks = 2; n_ranks <= 4; ++n_ranks) {
    const std::string out = fmt::format("ranks{}", n_ranks);
    Run(Train(out, 60, n_ranks));
    EXPECT_TRUE(SameFiles(out, "one")) << n_ranks;
  }
#ifdef NERF_HAS_GLOO
  Run(Train("gloo", 60, 2) + " --interface lo");
  EXPECT_TRUE(SameFiles("gloo", "one"));
#endif
}

// Numbers of the events `ranks`, forecasts or what was measured: key's value in each.
std::vector<double> RankFigures(const std::string& said, bool forecast, const std::string& key) {
  std::vector<double> values;
  const std::string kind = forecast ? "\"forecast\":true" : "\"forecast\":false";
  const std::string name = fmt::format("\"{}\":", key);
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("\"ranks\"") == line.npos || line.find(kind) == line.npos) continue;
    const size_t at = line.find(name);
    values.push_back(at == line.npos ? -1 : std::atof(line.c_str() + at + name.size()));
  }
  return values;
}

// A new field tells little of later steps, so the forecast is renewed twice.
TEST_F(NerfEngineRanksTest, ForecastsOfBytesAreRenewedAndComeTrue) {
  EngineProcess process(Train("forecast", 800, 2) + " --json");
  ASSERT_EQ(process.Wait(), 0) << process.said();
  const std::vector<double> first = RankFigures(process.said(), true, "first_step"),
                            forecast = RankFigures(process.said(), true, "bytes_per_step"),
                            measured = RankFigures(process.said(), false, "bytes_per_step");
  ASSERT_EQ(first.size(), 3u) << process.said();
  EXPECT_EQ(first[0], 0);
  EXPECT_GE(first[1], 80);
  EXPECT_GE(first[2], 200);
  EXPECT_EQ(RankFigures(process.said(), false, "first_step"), first);
  ASSERT_EQ(measured.size(), 3u);
  for (size_t i = 1; i < 3; ++i) EXPECT_NEAR(forecast[i], measured[i], 0.1 * measured[i]) << i;
  const std::vector<double> n_steps = RankFigures(process.said(), true, "steps");
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(n_steps[i], 800 - first[i], 0.5);
}

TEST_F(NerfEngineRanksTest, HoweverRanksAreFedTheyWriteTheSameFiles) {
  Run(Train("one", 60, 1));
  int n = 0;
  for (const char* feed :
       {"--feed central", "--batches-ahead 2", "--feed central --batches-ahead 1",
        "--pictures file", "--pictures file --batches-ahead 2"}) {
    const std::string out = fmt::format("fed{}", n++);
    Run(Train(out, 60, 2) + " " + feed);
    EXPECT_TRUE(SameFiles(out, "one")) << feed;
    EXPECT_FALSE(std::filesystem::exists((dir_ / out) + "/pictures.raw"));
  }
}

TEST_F(NerfEngineRanksTest, AllRanksEvaluateAsOneDoes) {
  std::vector<std::string> scores;
  for (const char* ranks : {"--ranks 1", "--ranks 3", "--ranks 2 --interface lo"}) {
#ifndef NERF_HAS_GLOO
    if (std::string_view(ranks).ends_with("lo")) continue;
#endif
    EngineProcess process(
        fmt::format("train {} --out {} --steps 60 --threads 1 --json --set log2_hashmap_size=12 {}",
                    dataset_, dir_ / "evaluated", ranks));
    EXPECT_EQ(process.Wait(), 0) << process.said();
    const size_t at = process.said().rfind("\"psnr\"");
    ASSERT_NE(at, std::string::npos) << process.said();
    scores.push_back(process.said().substr(at, process.said().find_first_of(",}", at) - at));
  }
  for (const std::string& score : scores) EXPECT_EQ(score, scores[0]);
}

TEST_F(NerfEngineRanksTest, AnotherNumberOfRanksGoesOn) {
  Run(Train("whole", 60, 1));
  Run(Train("parts", 60, 2) + " --stop-after 20");
  const std::string resume = fmt::format("train {} --no-eval --threads 1 --resume {} --ranks ",
                                         dataset_, dir_ / "parts/checkpoint.safetensors");
  Run(resume + "3 --stop-after 40");
  Run(resume + "1");
  EXPECT_TRUE(SameFiles("parts", "whole"));
}

TEST_F(NerfEngineRanksTest, AKilledRankEndsTheOthersAndTheRunGoesOn) {
  Run(Train("whole", 400, 1));
  EngineProcess process(Train("killed", 400, 3) + " --json --checkpoint-interval 0.02");
  ASSERT_TRUE(process.ReadUntil("\"checkpoint\"")) << process.said();
  const std::vector<pid_t> ranks = process.Ranks();
  ASSERT_EQ(ranks.size(), 2u);
  kill(ranks[1], SIGKILL);
  EXPECT_EQ(process.Wait(), 6) << process.said();
  EXPECT_NE(process.said().find("rank 2 was killed by signal 9; to go on: nerf-engine train "),
            std::string::npos)
      << process.said();
  for (const pid_t rank : ranks) EXPECT_NE(kill(rank, 0), 0) << "rank is still there";
  Run(fmt::format("train {} --no-eval --threads 1 --resume {} --ranks 2", dataset_,
                  dir_ / "killed/checkpoint.safetensors"));
  EXPECT_TRUE(SameFiles("killed", "whole"));
}

TEST_F(NerfEngineRanksTest, ASignalToRank0WritesACheckpointThatGoesOn) {
  EngineProcess process(Train("stopped", 1000000, 2) + " --json");
  ASSERT_TRUE(process.ReadUntil("\"progress\"")) << process.said();
  kill(process.pid(), SIGTERM);
  EXPECT_EQ(process.Wait(), 143) << process.said();
  EXPECT_NE(process.said().find(" --ranks 2"), std::string::npos) << process.said();
  EXPECT_TRUE(std::filesystem::exists(dir_ / "stopped/checkpoint.safetensors"));
}

TEST_F(NerfEngineRanksTest, RanksStartedOneByOneMeetAtTheRendezvous) {
  Run(Train("one", 30, 1));
  // A port of the loopback, free a moment ago.
  const std::string meet = fmt::format(" --rendezvous 127.0.0.1:{}", 24000 + getpid() % 1000);
  EngineProcess second(Train("two", 30, 2) + " --rank 1" + meet);
  Run(Train("two", 30, 2) + " --rank 0" + meet);
  EXPECT_EQ(second.Wait(), 0) << second.said();
  EXPECT_TRUE(SameFiles("two", "one"));
}

TEST_F(NerfEngineRanksTest, ARankOfAnotherTrainingIsRefused) {
  const std::string meet = fmt::format(" --rendezvous 127.0.0.1:{}", 24000 + getpid() % 1000);
  EngineProcess second(Train("two", 30, 2) + " --seed 7 --rank 1" + meet);
  EngineProcess first(Train("two", 30, 2) + " --rank 0" + meet);
  EXPECT_EQ(first.Wait(), 7) << first.said();
  EXPECT_NE(first.said().find("rank 1 trains something else: "), std::string::npos) << first.said();
  EXPECT_NE(second.Wait(), 0);
}

TEST_F(NerfEngineRanksTest, NgpAutogradTrainsOnRanksAndGoesOnAlone) {
  if (!std::filesystem::exists(AutogradLibraryPath())) GTEST_SKIP() << "needs LibTorch";
  EngineProcess two(Train("two", 12, 2) + " --method ngp-autograd --json --stop-after 8");
  EXPECT_EQ(two.Wait(), 0) << two.said();
  for (const char* forecast : {"true", "false"}) {
    EXPECT_NE(two.said().find(fmt::format("\"forecast\":{}", forecast)), std::string::npos)
        << two.said();
  }
  Run(fmt::format("train {} --no-eval --threads 1 --resume {}", dataset_,
                  dir_ / "two/checkpoint.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(dir_ / "two/model.safetensors"));
}

TEST_F(NerfEngineRanksTest, FlagsAndMethodsThatDoNotGoWithRanksAreRefused) {
  ExpectError(Train("o", 5, 2) + " --method dynamic", 2,
              "method dynamic cannot be split among ranks");
  ExpectError(Train("o", 5, 1) + " --feed central", 2, "needs --ranks");
  ExpectError(Train("o", 5, 2) + " --rank 2 --rendezvous 127.0.0.1:24000", 2, "--rank 2");
  ExpectError(Train("o", 5, 2) + " --rendezvous 127.0.0.1:24000", 2, "needs --rank");
  ExpectError(Train("o", 5, 1) + " --rank 0", 2, "need --ranks");
  for (const char* rank : {" --rank 0", " --rank 1"}) {
    ExpectError(Train("o", 5, 2) + rank, 2, "--rank needs --rendezvous HOST:PORT");
  }
  ExpectError(Train("o", 5, 2) + " --rank 1 --rendezvous 10.0.0.1:24000", 2, "--interface");
  ExpectError(Train("o", 5, 2) + " --rank 1 --rendezvous nowhere", 2, "must be HOST:PORT");
  ExpectError(Train("o", 5, 33), 2, "--ranks");
  ExpectError(fmt::format("train {} --out {} --steps 5 --ranks 2", dir_ / "none", dir_ / "o"), 5,
              "there is no such folder");
}

}  // namespace
}  // namespace nerf
