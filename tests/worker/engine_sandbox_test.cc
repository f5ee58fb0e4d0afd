// What an engine that was taken over gets, with and without the sandbox. NERF_SANDBOX_TABLE=1
// prints what each attempt and each call of the kernel was answered.
#include "worker/engine/engine_sandbox.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "common/process/sandbox_support.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"
#include "tests/worker/mount_namespace.h"
#include "worker/engine/engine_process.h"

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
    fs::create_directories(dir_ / "cache/rooms/2/jobs");
    fs::create_directories(dir_ / "data");
    for (const char* other : {"cache/rooms/2/jobs/photo.png", "data/admin.token",
                              "data/worker.token", "data/nerfd.db"}) {
      std::ofstream(dir_ / other) << "another's";
    }
    std::ofstream(dir_ / "cache/worker_key") << "the key\n";
    std::ofstream(dir_ / "cache/jobs/1/scene.json") << "{}";
    std::ofstream(cached_) << "cached";
    chmod(cached_.c_str(), 0444);
    fs::create_hard_link(cached_, dir_ / "cache/jobs/1/linked.bin");
    fs::create_directories(dir_ / "cache/bin");
    fs::copy_file(HOSTILE_ENGINE, program_);
    std::ofstream(dir_ / "cache/bin/beside") << "tokens";
    setenv("NERF_WORKER_SECRET", "1", 1);
    setenv("HOSTILE_SECRET", "1", 1);
  }
  ~EngineSandboxTest() override {
    unsetenv("NERF_WORKER_SECRET");
    unsetenv("HOSTILE_SECRET");
  }

  // The attempts that had success.
  std::set<std::string> Attack(bool sandboxed, bool in_gang = false) {
    EngineProcessOptions options{program_,
                                 {dir_ / "cache/jobs/1", dir_ / "cache/worker_key", cached_}};
    options.sandbox.enabled = sandboxed;
    options.sandbox.max_data_bytes = uint64_t{1} << 30;
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
    answers_.clear();
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
        if (event.message.empty()) continue;
        const size_t name_size = event.message.find(' ');
        answers_[event.message.substr(0, name_size)] = event.message.substr(name_size + 1);
        if (event.message.ends_with(" ok")) successes.insert(event.message.substr(0, name_size));
      }
    }
    return successes;
  }

  std::map<std::string, std::string> answers_;  // to each attempt of the last attack
  TempDir dir_;
  const std::string cached_ = dir_ / "cache/blobs/cached";
  const std::string program_ = dir_ / "cache/bin/engine";
};

bool PrintsTables() { return std::getenv("NERF_SANDBOX_TABLE") != nullptr; }

constexpr int kCalls = 700;
// uretprobe and uprobe, which the kernel's own probes make and seccomp never sees: a signal.
constexpr std::array kOfProbes = {335, 336};
// Allowed with some arguments.
constexpr std::array kOfArguments = {SYS_socket, SYS_clone, SYS_ioctl, SYS_fcntl, SYS_prlimit64};

// What each call is answered in this sandbox, with arguments of -1, in a process of its own.
std::vector<std::string> AnswersByNumber(const EngineRules& rules) {
  const auto sandbox = EngineSandbox::Build({.enabled = true}, rules);
  if (!sandbox.ok()) return {};
  std::vector<std::string> answers;
  for (int call = 0; call < kCalls; ++call) {
    const std::string answer = InChild([&]() -> std::string {
      alarm(1);
      if (!sandbox->Apply()) return "not applied";
      errno = 0;
      if (syscall(call, -1, -1, -1, -1, -1, -1) >= 0) return "done";
      const char* const name = strerrorname_np(errno);
      return name == nullptr ? "?" : name;
    });
    answers.push_back(answer.empty() ? "ends or waits" : answer);
  }
  return answers;
}

std::string NameOfCall(int call) {
  char* const name =
      seccomp_syscall_resolve_num_arch(static_cast<uint32_t>(SCMP_ARCH_NATIVE), call);
  std::string text = name == nullptr ? "" : name;
  std::free(name);
  return text;
}

TEST(EngineCallsTest, EachCallByItselfIsRefusedUnlessItIsOfTheRules) {
  std::vector<std::vector<std::string>> columns;
  for (const EngineSandboxOptions& options :
       {EngineSandboxOptions{}, {.ranks = true}, {.gpu = true}}) {
    const EngineRules rules = RulesOf(options, "/bin/true", {});
    const std::vector<std::string>& answers = columns.emplace_back(AnswersByNumber(rules));
    ASSERT_EQ(answers.size(), static_cast<size_t>(kCalls));
    int n_refused = 0;
    for (int call = 0; call < kCalls; ++call) {
      const std::string& answer = answers[static_cast<size_t>(call)];
      const bool is_refused = answer == "EPERM" || answer == "ENOSYS";
      n_refused += is_refused ? 1 : 0;
      if (rules.calls.contains(call) || std::ranges::count(kOfArguments, call) > 0 ||
          std::ranges::count(kOfProbes, call) > 0) {
        continue;
      }
      EXPECT_TRUE(is_refused) << call << " " << NameOfCall(call) << ": " << answer;
    }
    EXPECT_LT(n_refused, kCalls - 100) << "what the rules allow is refused, too";
  }
  if (!PrintsTables()) return;
  utsname kernel{};
  uname(&kernel);
  fmt::print("{:>4} {:24} {:14} {:14} {}\n", "call", kernel.release, "CPU", "in a gang", "GPU");
  for (int call = 0; call < kCalls; ++call) {
    const auto i = static_cast<size_t>(call);
    fmt::print("{:4} {:24} {:14} {:14} {}\n", call, NameOfCall(call), columns[0][i], columns[1][i],
               columns[2][i]);
  }
}

// The calls by number that a process in this sandbox gets an answer to, other than `untried`.
std::string Answered(const EngineRules& rules, const std::set<int>& untried) {
  const auto sandbox = EngineSandbox::Build({.enabled = true}, rules);
  if (!sandbox.ok()) return std::string(sandbox.status().message());
  return InChild([&]() -> std::string {
    if (!sandbox->Apply()) return "not applied";
    std::string answered;
    for (int call = 0; call < kCalls; ++call) {
      if (untried.contains(call) || std::ranges::count(kOfProbes, call) > 0) continue;
      if (syscall(call, -1, -1, -1, -1, -1, -1) >= 0 || (errno != EPERM && errno != ENOSYS))
        answered += std::to_string(call) + " ";
    }
    return answered + "end";
  });
}

TEST(EngineCallsTest, NoCallBesidesThoseOfTheRulesIsAnswered) {
  for (const bool gpu : {false, true}) {
    for (const bool ranks : {false, true}) {
      const EngineRules rules = RulesOf({.gpu = gpu, .ranks = ranks}, "/bin/true", {});
      std::set<int> untried = rules.calls;
      untried.insert(kOfArguments.begin(), kOfArguments.end());
      EXPECT_EQ(Answered(rules, untried), "end") << "GPU " << gpu << ", ranks " << ranks;
      // A filter that lets one more call through is found out. 452 and 463 are fchmodat2 and
      // setxattrat, which came with Linux 6.6 and 6.13.
      for (const int call :
           {SYS_chmod, SYS_fchmod, SYS_utimensat, SYS_setxattr, SYS_linkat, SYS_symlinkat, SYS_kill,
            SYS_unshare, SYS_shmget, SYS_mq_open, 452, 463}) {
        const auto is_there = [&] {
          return syscall(call, -1, -1, -1, -1, -1, -1) >= 0 || errno != ENOSYS ? "yes" : "";
        };
        if (InChild(is_there).empty()) continue;  // not in this kernel
        EngineRules mutant = rules;
        mutant.calls.insert(call);
        EXPECT_EQ(Answered(mutant, untried), std::to_string(call) + " end");
      }
    }
  }
}

TEST(EngineCallsTest, ArgumentsOfSomeCallsCount) {
  const auto sandbox =
      EngineSandbox::Build({.enabled = true}, RulesOf({}, "/bin/true", LoaderPaths()));
  ASSERT_THAT(sandbox.status(), IsOk());
  const std::string answers = InChild([&]() -> std::string {
    if (!sandbox->Apply()) return "not applied";
    std::string text;
    const auto say = [&](const char* name, long result) {
      const int error = errno;
      text += fmt::format("{} {}; ", name,
                          result >= 0       ? "ok"
                          : error == EPERM  ? "EPERM"
                          : error == ENOSYS ? "ENOSYS"
                                            : std::strerror(error));
    };
    int n = 0;
    say("process", syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    say("namespace", syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
    say("thread in a namespace", syscall(SYS_clone, CLONE_THREAD | CLONE_NEWUSER, 0, 0, 0, 0));
    say("clone3", syscall(SYS_clone3, 0, 0));
    say("fork", syscall(SYS_vfork));
    say("bytes to read", ioctl(STDIN_FILENO, FIONREAD, &n));
    say("flags of a file", ioctl(STDIN_FILENO, FS_IOC_GETFLAGS, &n));
    say("state of a descriptor", fcntl(STDIN_FILENO, F_GETFL));
    say("lease", fcntl(STDIN_FILENO, F_SETLEASE, F_RDLCK));
    say("signals to another", fcntl(STDIN_FILENO, F_SETOWN, getppid()));
    rlimit limit{};
    say("own limits", prlimit(0, RLIMIT_CORE, nullptr, &limit));
    say("another's limits", prlimit(1, RLIMIT_CORE, nullptr, &limit));
    say("network", socket(AF_INET, SOCK_STREAM, 0));
    std::thread([&] { text += "a thread runs"; }).join();
    return text;
  });
  EXPECT_THAT(
      answers,
      testing::AnyOf(
          "process EPERM; namespace EPERM; thread in a namespace EPERM; clone3 ENOSYS; fork EPERM; "
          "bytes to read ok; flags of a file EPERM; state of a descriptor ok; lease EPERM; "
          "signals to another EPERM; own limits ok; another's limits EPERM; network EPERM; "
          "a thread runs",
          // Standard input is no pipe and no file.
          testing::HasSubstr(
              "fork EPERM; bytes to read Inappropriate ioctl for device; flags of a "
              "file EPERM; state of a descriptor ok; lease EPERM; signals to "
              "another EPERM; own limits ok; another's limits EPERM; network EPERM; a "
              "thread runs")));
}

TEST_F(EngineSandboxTest, HostileEngineGetsItsOwnFilesAndNothingElse) {
  if (LandlockVersion() < 3) GTEST_SKIP() << "this kernel has no Landlock of version 3";
  std::set<std::string> successes = Attack(/*sandboxed=*/true);
  // Signals and abstract sockets are kept in since version 6.
  if (LandlockVersion() < 6) successes.erase("signal-worker");
  EXPECT_THAT(successes, UnorderedElementsAre("read-scene", "write-output", "make-folder",
                                              "read-libraries", "first-to-be-killed", "end"));
  EXPECT_FALSE(fs::exists("/tmp/hostile-engine"));
  std::string content;
  std::getline(std::ifstream(cached_), content);
  EXPECT_EQ(content, "cached");
}

TEST_F(EngineSandboxTest, EngineOfAGangMayOpenTcpBesides) {
  if (LandlockVersion() < 3) GTEST_SKIP() << "this kernel has no Landlock of version 3";
  std::set<std::string> successes = Attack(/*sandboxed=*/true, /*in_gang=*/true);
  if (LandlockVersion() < 6) successes.erase("signal-worker");
  EXPECT_THAT(successes,
              UnorderedElementsAre("read-scene", "write-output", "make-folder", "read-libraries",
                                   "first-to-be-killed", "tcp", "end"));
}

// Proves that the attempts are real ones.
TEST_F(EngineSandboxTest, WithoutTheSandboxTheSameAttemptsSucceed) {
  Attack(/*sandboxed=*/true);
  const std::map<std::string, std::string> in_sandbox = answers_;
  EXPECT_THAT(Attack(/*sandboxed=*/false), IsSupersetOf({"list-of-cache",
                                                         "other-project",
                                                         "list-of-projects",
                                                         "admin-token",
                                                         "worker-token",
                                                         "queue",
                                                         "write-queue",
                                                         "list-of-data-folder",
                                                         "program-folder",
                                                         "process",
                                                         "system-v-memory",
                                                         "nameless-program",
                                                         "times-of-cached",
                                                         "much-memory",
                                                         "secret",
                                                         "passwd",
                                                         "cache",
                                                         "tcp",
                                                         "udp",
                                                         "shell",
                                                         "symlink",
                                                         "chmod-cached",
                                                         "shared-memory",
                                                         "environment",
                                                         "signal-worker",
                                                         "environment-of-worker"}));
  fs::remove("/tmp/hostile-engine");
  fs::remove("/dev/shm/hostile-engine");
  fs::remove("/tmp/hostile-out");
  if (!PrintsTables()) return;
  fmt::print("{:28} {:16} {}\n", "attempt", "in the sandbox", "without it");
  for (const auto& [name, answer] : in_sandbox) {
    fmt::print("{:28} {:16} {}\n", name, answer, answers_[name]);
  }
}

TEST(EngineSandboxBuildTest, SaysWhatHolds) {
  EXPECT_EQ(EngineSandbox::Build({}, "/bin/true")->description(), "off");
  const auto sandbox = EngineSandbox::Build({.enabled = true}, "/bin/true");
  ASSERT_THAT(sandbox.status(), IsOk());
  EXPECT_THAT(sandbox->description(), testing::HasSubstr("seccomp, no capabilities, limits"));
}

}  // namespace
}  // namespace nerf
