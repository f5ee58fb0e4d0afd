// The supervisor with a shell script in the worker's place: it locks its folder as nerf-worker
// does, notes its process id and waits.
#include "server/main/local_worker.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "common/file_io.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

class LocalWorkerTest : public testing::Test {
 protected:
  // `$4` is the cache folder. Every life appends a line to pids.
  void WriteScript(const std::string& on_term) {
    std::ofstream(dir_ / "nerf-worker") << "#!/bin/sh\n"
                                        << "exec 9>>\"$4/lock\"; flock -n 9 || exit 7\n"
                                        << "echo $$ > \"$4/lock\"; echo $$ >> \"$4/pids\"\n"
                                        << "trap '" << on_term << "' TERM\n"
                                        << "while :; do sleep 0.05; done\n";
    chmod((dir_ / "nerf-worker").c_str(), 0755);
    std::filesystem::create_directories(dir_ / "worker");
  }
  LocalWorkerOptions Options() {
    LocalWorkerOptions options;
    options.program = dir_ / "nerf-worker";
    options.server = "127.0.0.1:1";
    options.cache_dir = dir_ / "worker";
    options.token_file = dir_ / "token";
    options.min_backoff = absl::Milliseconds(50);
    return options;
  }
  // The process ids of all lives so far, once there are `n`.
  std::vector<pid_t> WaitForLives(size_t n) {
    std::vector<pid_t> pids;
    for (int i = 0; i < 500 && pids.size() < n; ++i) {
      std::ifstream file(dir_ / "worker/pids");
      pids.assign(std::istream_iterator<pid_t>(file), std::istream_iterator<pid_t>());
      absl::SleepFor(absl::Milliseconds(20));
    }
    return pids;
  }
  TempDir dir_;
};

TEST_F(LocalWorkerTest, StartsInItsOwnGroupRestartsAfterDeathAndEndsOnStop) {
  WriteScript("exit 0");
  LocalWorker worker(Options());
  std::vector<pid_t> pids = WaitForLives(1);
  ASSERT_EQ(pids.size(), 1u);
  EXPECT_EQ(getpgid(pids[0]), pids[0]);
  EXPECT_NE(getpgid(pids[0]), getpgid(0));
  kill(-pids[0], SIGKILL);
  pids = WaitForLives(2);
  ASSERT_EQ(pids.size(), 2u);
  worker.Stop(absl::Seconds(10));
  EXPECT_NE(kill(pids[1], 0), 0) << "it still runs";
}

TEST_F(LocalWorkerTest, WorkerThatIgnoresSigtermIsKilledAfterTheGrace) {
  WriteScript("");
  LocalWorker worker(Options());
  const std::vector<pid_t> pids = WaitForLives(1);
  ASSERT_EQ(pids.size(), 1u);
  absl::SleepFor(absl::Milliseconds(100));  // the script sets its trap after its note
  worker.Stop(absl::Milliseconds(300));
  EXPECT_NE(kill(pids[0], 0), 0) << "it still runs";
}

TEST_F(LocalWorkerTest, NothingStartsWhileSomebodyHoldsTheFolder) {
  WriteScript("exit 0");
  UniqueFd lock(open((dir_ / "worker/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  ASSERT_EQ(flock(lock.get(), LOCK_EX | LOCK_NB), 0);
  LocalWorker worker(Options());
  absl::SleepFor(absl::Milliseconds(300));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "worker/pids"));
  lock.Reset();
  EXPECT_EQ(WaitForLives(1).size(), 1u) << "the folder is free again";
  worker.Stop(absl::Seconds(10));
}

TEST_F(LocalWorkerTest, MissingProgramKeepsNobodyFromStopping) {
  LocalWorkerOptions options = Options();
  options.program = dir_ / "nothing-here";
  LocalWorker worker(options);
  absl::SleepFor(absl::Milliseconds(100));
  worker.Stop(absl::Seconds(10));
}

}  // namespace
}  // namespace nerf
