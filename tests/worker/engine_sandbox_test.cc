// What an engine that was taken over gets, with and without the sandbox.
#include "worker/engine_sandbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "common/mutex.h"
#include "common/sandbox_support.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"
#include "worker/engine_process.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;
using testing::IsSupersetOf;
using testing::UnorderedElementsAre;

class EngineSandboxTest : public testing::Test {
 protected:
  EngineSandboxTest() {
    fs::create_directories(dir_ / "cache/jobs/1");
    fs::create_directories(dir_ / "cache/blobs");
    std::ofstream(dir_ / "cache/worker_key") << "the key\n";
    std::ofstream(dir_ / "cache/jobs/1/scene.json") << "{}";
    std::ofstream(cached_) << "cached";
    chmod(cached_.c_str(), 0444);
    fs::create_hard_link(cached_, dir_ / "cache/jobs/1/linked.bin");
    setenv("NERF_WORKER_SECRET", "1", 1);
    setenv("HOSTILE_SECRET", "1", 1);
  }
  ~EngineSandboxTest() override {
    unsetenv("NERF_WORKER_SECRET");
    unsetenv("HOSTILE_SECRET");
  }

  // The attempts that had success.
  std::set<std::string> Attack(bool sandboxed, bool in_gang = false) {
    EngineProcessOptions options{HOSTILE_ENGINE,
                                 {dir_ / "cache/jobs/1", dir_ / "cache/worker_key", cached_}};
    options.sandbox.enabled = sandboxed;
    EngineProcessLauncher launcher(options);
    const EngineAccess access{.write_paths = {dir_ / "cache/jobs"}, .ranks = in_gang};
    Mutex mu;
    CondVar readable;
    bool is_readable = false;
    const auto engine = launcher.Launch(access, [&] {
      MutexLock lock(mu);
      is_readable = true;
      readable.NotifyAll();
    });
    EXPECT_THAT(engine.status(), IsOk());
    std::set<std::string> successes;
    bool ended = false;
    while (engine.ok() && !ended) {
      {
        MutexLock lock(mu);
        while (!is_readable) readable.Wait(mu);
        is_readable = false;
      }
      for (const Engine::Event& event : (*engine)->Take()) {
        if (event.exit.has_value()) {
          EXPECT_EQ(event.exit->Describe(), "exit code 0");
          ended = true;
        }
        if (event.line.ends_with(" ok"))
          successes.insert(event.line.substr(0, event.line.size() - 3));
      }
    }
    return successes;
  }

  TempDir dir_;
  const std::string cached_ = dir_ / "cache/blobs/cached";
};

TEST_F(EngineSandboxTest, HostileEngineGetsItsOwnFilesAndNothingElse) {
  if (LandlockVersion() < 3) GTEST_SKIP() << "this kernel has no Landlock of version 3";
  std::set<std::string> successes = Attack(/*sandboxed=*/true);
  // Signals and abstract sockets are kept in since version 6.
  if (LandlockVersion() < 6) successes.erase("signal-worker");
  EXPECT_THAT(successes, UnorderedElementsAre("read-scene", "write-output", "make-folder",
                                              "read-libraries", "end"));
  EXPECT_FALSE(fs::exists("/tmp/hostile-engine"));
  std::string content;
  std::getline(std::ifstream(cached_), content);
  EXPECT_EQ(content, "cached");
}

TEST_F(EngineSandboxTest, EngineOfAGangMayOpenTcpBesides) {
  if (LandlockVersion() < 3) GTEST_SKIP() << "this kernel has no Landlock of version 3";
  std::set<std::string> successes = Attack(/*sandboxed=*/true, /*in_gang=*/true);
  if (LandlockVersion() < 6) successes.erase("signal-worker");
  EXPECT_THAT(successes, UnorderedElementsAre("read-scene", "write-output", "make-folder",
                                              "read-libraries", "tcp", "end"));
}

// Proves that the attempts are real ones.
TEST_F(EngineSandboxTest, WithoutTheSandboxTheSameAttemptsSucceed) {
  EXPECT_THAT(
      Attack(/*sandboxed=*/false),
      IsSupersetOf({"secret", "passwd", "cache", "tcp", "udp", "shell", "symlink", "chmod-cached",
                    "shared-memory", "environment", "signal-worker", "environment-of-worker"}));
  fs::remove("/tmp/hostile-engine");
  fs::remove("/dev/shm/hostile-engine");
  fs::remove("/tmp/hostile-out");
}

TEST(EngineSandboxBuildTest, SaysWhatHolds) {
  EXPECT_EQ(EngineSandbox::Build({}, "/bin/true")->description(), "off");
  const auto sandbox = EngineSandbox::Build({.enabled = true}, "/bin/true");
  ASSERT_THAT(sandbox.status(), IsOk());
  EXPECT_THAT(sandbox->description(), testing::HasSubstr("seccomp, no capabilities, limits"));
}

}  // namespace
}  // namespace nerf
