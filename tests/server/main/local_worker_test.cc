// The supervisor with a shell script instead of a worker. The script locks its folder as
// nerf-worker does, writes its process id into a FIFO and waits.
#include "server/main/local_worker.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/files/file_io.h"
#include "common/mutex.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

constexpr int kPatienceMs = 20'000;

class LocalWorkerTest : public testing::Test {
 protected:
  LocalWorkerTest() {
    std::filesystem::create_directories(dir_ / "worker");
    for (const char* name : {"started", "never"}) {
      if (mkfifo((dir_ / name).c_str(), 0600) != 0) std::abort();
    }
    // Also opened for writing, so that reads see no end of file between two runs of the script.
    started_ = UniqueFd(open((dir_ / "started").c_str(), O_RDWR | O_CLOEXEC));
  }

  // `$4` is the cache folder. The script reports its start after its trap is set.
  void WriteScript(const std::string& on_term) {
    std::ofstream(dir_ / "nerf-worker") << "#!/bin/sh\n"
                                        << "exec 9>>\"$4/lock\"; flock -n 9 || exit 7\n"
                                        << "echo $$ > \"$4/lock\"\n"
                                        << "trap '" << on_term << "' TERM\n"
                                        << "echo $$ > \"$4/../started\"\n"
                                        << "exec 8<>\"$4/../never\"\n"
                                        << "while :; do read nothing <&8; done\n";
    chmod((dir_ / "nerf-worker").c_str(), 0755);
  }
  LocalWorkerOptions Options() {
    LocalWorkerOptions options;
    options.program = dir_ / "nerf-worker";
    options.server = "127.0.0.1:1";
    options.cache_dir = dir_ / "worker";
    options.token_file = dir_ / "token";
    options.min_backoff = absl::Milliseconds(50);
    options.after_look = [this] {
      MutexLock lock(mu_);
      ++looks_;
      looked_.NotifyAll();
    };
    return options;
  }
  bool HasStarted(int patience_ms) {
    pollfd fd = {started_.get(), POLLIN, 0};
    return poll(&fd, 1, patience_ms) == 1;
  }
  // The process id of the next run; 0 if there is none.
  pid_t WaitForStart() {
    std::string line;
    while (HasStarted(kPatienceMs)) {
      char c = 0;
      if (read(started_.get(), &c, 1) != 1) break;
      if (c == '\n') return static_cast<pid_t>(std::atol(line.c_str()));
      line += c;
    }
    return 0;
  }
  // Waits until the supervisor has checked its worker `n` times.
  void WaitForLooks(int n) {
    MutexLock lock(mu_);
    while (looks_ < n) looked_.Wait(mu_);
  }

  TempDir dir_;
  UniqueFd started_;
  Mutex mu_;
  CondVar looked_;
  int looks_ ABSL_GUARDED_BY(mu_) = 0;
};

TEST_F(LocalWorkerTest, StartsInItsOwnGroupRestartsAfterDeathAndEndsOnStop) {
  WriteScript("exit 0");
  LocalWorker worker(Options());
  const pid_t first = WaitForStart();
  ASSERT_GT(first, 0);
  EXPECT_EQ(getpgid(first), first);
  EXPECT_NE(getpgid(first), getpgid(0));
  kill(-first, SIGKILL);
  const pid_t second = WaitForStart();
  ASSERT_GT(second, 0);
  EXPECT_NE(second, first);
  worker.Stop(absl::Seconds(10));
  EXPECT_NE(kill(second, 0), 0) << "it still runs";
}

TEST_F(LocalWorkerTest, WorkerThatIgnoresSigtermIsKilledAfterTheGrace) {
  WriteScript("");
  LocalWorker worker(Options());
  const pid_t pid = WaitForStart();
  ASSERT_GT(pid, 0);
  worker.Stop(absl::Milliseconds(300));
  EXPECT_NE(kill(pid, 0), 0) << "it still runs";
}

TEST_F(LocalWorkerTest, NothingStartsWhileSomebodyHoldsTheFolder) {
  WriteScript("exit 0");
  UniqueFd lock(open((dir_ / "worker/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  ASSERT_EQ(flock(lock.get(), LOCK_EX | LOCK_NB), 0);
  LocalWorker worker(Options());
  WaitForLooks(3);
  EXPECT_FALSE(HasStarted(0));
  lock.Reset();
  EXPECT_GT(WaitForStart(), 0) << "the folder is free again";
  worker.Stop(absl::Seconds(10));
}

TEST_F(LocalWorkerTest, StopReturnsAlthoughTheProgramIsMissing) {
  LocalWorkerOptions options = Options();
  options.program = dir_ / "nothing-here";
  LocalWorker worker(options);
  WaitForLooks(2);
  worker.Stop(absl::Seconds(10));
}

}  // namespace
}  // namespace nerf
