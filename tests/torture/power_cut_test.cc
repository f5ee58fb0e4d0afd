// The queue over SQLite, blobs, tokens and backups run by a seed while every change of the disk is
// recorded (recorded_disk.h). Then the power is cut at places of the recording, what a file system
// may have kept is drawn (cut_disk.h), everything is opened again and compared with what was
// acknowledged (cut_check.h). A seed repeats each cut.
//
// NERF_TORTURE_SEED in the environment takes the place of the seed that is new on each run. Long
// runs: long_run.cc.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <random>

#include "absl/strings/numbers.h"
#include "common/files/file_io.h"
#include "tests/torture/torture.h"

namespace nerf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kFixedSeed = 53;
constexpr std::chrono::seconds kRandomTime{8};  // of each test that draws seeds

uint64_t NewSeed() {
  uint64_t seed = std::random_device()();
  const char* given = std::getenv("NERF_TORTURE_SEED");
  if (given != nullptr && !absl::SimpleAtoi(given, &seed)) std::abort();
  return seed;
}

// From the new seed on, as many as the time allows.
void TrySeeds(const std::function<std::string(Torture& torture, uint64_t seed)>& attempt) {
  const uint64_t first = NewSeed();
  std::cout << "NERF_TORTURE_SEED=" << first << "\n";
  Torture torture;
  const auto end = Clock::now() + kRandomTime;
  for (uint64_t seed = first; Clock::now() < end; ++seed) {
    ASSERT_EQ(attempt(torture, seed), "") << "repeat with NERF_TORTURE_SEED=" << seed;
  }
  std::cout << fmt::format("{} cuts of {} stories, {} with a fault\n", torture.tally().n_cuts,
                           torture.tally().n_stories, torture.tally().n_faults);
}

TEST(PowerCutTest, EveryCutOfAFixedStoryKeepsWhatWasAcknowledged) {
  Torture torture;
  const StoryRecord record = torture.Tell({.seed = kFixedSeed, .n_jobs = 3});
  EXPECT_EQ(torture.Cut(record, kFixedSeed, [](size_t) { return 3; }), "");
  EXPECT_GT(torture.tally().n_cuts, 1000u);
}

// Files below a folder with their bytes.
std::map<std::string, std::string> FilesIn(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const std::string path = entry.path().string();
    files[path.substr(folder.size())] = *ReadFile(path, 1 << 26);
  }
  return files;
}

// Where it does not hold, a call of libc that changes files is not recorded.
TEST(PowerCutTest, RecordingHoldsWhatTheFolderHas) {
  const Scratch scratch;
  const std::string live = scratch.Empty("live"), cut = scratch.Empty("cut");
  const StoryRecord record = RunStory(live, {.seed = kFixedSeed, .n_jobs = 10});
  EXPECT_EQ(record.violation, "");
  CutDisk disk(record.first_nodes);
  for (const DiskOp& op : record.ops) disk.Apply(op);
  SeededRandom random(1);
  disk.WriteTo(cut, Kept::kEverything, random);
  const auto there = FilesIn(live), recorded = FilesIn(cut);
  EXPECT_GT(there.size(), 20u);
  ASSERT_EQ(there.size(), recorded.size());
  for (const auto& [name, bytes] : there) EXPECT_TRUE(recorded.at(name) == bytes) << name;
}

TEST(PowerCutTest, ASeedTellsTheSameStory) {
  Torture torture;
  const StoryRecord a = torture.Tell({.seed = kFixedSeed, .n_jobs = 10});
  const StoryRecord b = torture.Tell({.seed = kFixedSeed, .n_jobs = 10});
  ASSERT_EQ(a.ops.size(), b.ops.size());
  ASSERT_EQ(a.states.size(), b.states.size());
  for (size_t i = 0; i < a.states.size(); ++i) EXPECT_EQ(a.states[i].digest, b.states[i].digest);
}

TEST(PowerCutTest, FaultsOfAFixedStoryAreToldAndSurvived) {
  Torture torture;
  bool is_over = false;
  for (size_t at = 0; !is_over; at += 23) {
    ASSERT_EQ(CutAfterFault(torture, kFixedSeed, at, &is_over), "");
  }
  EXPECT_GT(torture.tally().n_faults, 20u);
}

TEST(PowerCutTest, NewStoriesKeepWhatWasAcknowledged) {
  TrySeeds([](Torture& torture, uint64_t seed) { return CutAtRandom(torture, seed, 50); });
}

TEST(PowerCutTest, WritesThatShareATransactionKeepWhatWasAcknowledged) {
  TrySeeds([](Torture& torture, uint64_t seed) { return CutTogether(torture, seed, 50); });
}

// Stories whose discipline is broken on purpose: the checks notice each kind.
class MutantTest : public testing::TestWithParam<Mutant> {};

TEST_P(MutantTest, IsCaught) {
  constexpr uint64_t kMaxSeeds = 20;
  Torture torture;
  for (uint64_t seed = 1; seed <= kMaxSeeds; ++seed) {
    const StoryRecord record =
        torture.Tell({.seed = seed, .n_jobs = 8, .restarts = false, .mutant = GetParam()});
    SeededRandom draw(seed);
    const uint64_t every = record.ops.size() / 100 + 1;
    const std::string wrong =
        torture.Cut(record, seed, [&](size_t) { return draw.OneIn(every) ? 1 : 0; });
    if (wrong.empty()) continue;
    std::cout << fmt::format("{}: caught by seed {}, cut {}: {}\n", MutantName(GetParam()), seed,
                             torture.tally().n_cuts, wrong);
    return;
  }
  FAIL() << MutantName(GetParam()) << " was not caught by " << kMaxSeeds << " seeds";
}

INSTANTIATE_TEST_SUITE_P(All, MutantTest, testing::ValuesIn(kMutants));

}  // namespace
}  // namespace nerf
