#include "server/main/local_worker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/files/file_io.h"
#include "common/logging.h"
#include "common/process/process_arguments.h"

namespace nerf {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(100);
// A worker that ran this long was healthy: the next one starts without a long pause.
constexpr absl::Duration kHealthyLife = absl::Seconds(60);

// True for a nerf-worker. A process id that was read from a file may belong to another program by
// now.
bool IsWorkerProcess(pid_t pid) {
  const std::vector<std::string> arguments = ArgumentsOf(pid);
  return !arguments.empty() && std::filesystem::path(arguments[0]).filename() == "nerf-worker";
}

}  // namespace

pid_t WorkerLockHolder(const std::string& cache_dir) {
  UniqueFd fd(open((cache_dir + "/lock").c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.ok()) return 0;
  if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return 0;
  char text[32] = {};
  if (pread(fd.get(), text, sizeof(text) - 1, 0) <= 0) return -1;
  const long pid = std::strtol(text, nullptr, 10);
  return pid > 1 && IsWorkerProcess(static_cast<pid_t>(pid)) ? static_cast<pid_t>(pid) : -1;
}

LocalWorker::LocalWorker(LocalWorkerOptions options)
    : options_(std::move(options)), thread_([this] { Supervise(); }) {}

LocalWorker::~LocalWorker() { StopSupervising(); }

void LocalWorker::StopSupervising() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

pid_t LocalWorker::Start() {
  const std::vector<std::string> arguments = {
      options_.program,   "--server",     options_.server,     "--cache-dir",
      options_.cache_dir, "--token-file", options_.token_file, "--log-level",
      options_.log_level, "--log-format", options_.log_format};
  const std::vector<char*> argv = ArgvOf(arguments);
  // The database's password (--store) is not for workers.
  std::vector<char*> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!std::string_view(*variable).starts_with("PGPASSWORD=")) variables.push_back(*variable);
  }
  variables.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  // Standard output belongs to nerfd.
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  // An inherited listening socket would keep the port in use after nerfd's end.
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, options_.program.c_str(), &actions, &attributes, argv.data(),
                                variables.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    LogError("cannot start the local worker",
             {{"program", options_.program}, {"error", std::generic_category().message(error)}});
    return 0;
  }
  LogInfo("local worker started", {{"pid", pid}});
  return pid;
}

bool LocalWorker::Reap() {
  int status = 0;
  const pid_t result = waitpid(child_, &status, WNOHANG);
  if (result == 0 || (result < 0 && errno == EINTR)) return false;
  const std::string how = WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                                              : fmt::format("exit code {}", WEXITSTATUS(status));
  Log(WIFEXITED(status) && WEXITSTATUS(status) == 0 ? LogLevel::kInfo : LogLevel::kWarning,
      "local worker ended", {{"pid", child_}, {"how", how}});
  child_ = 0;
  return true;
}

void LocalWorker::Supervise() {
  RealClock clock;
  absl::Duration backoff = options_.min_backoff;
  SteadyTime started_at, next_start = clock.Now();
  pid_t known_survivor = 0;
  MutexLock lock(mu_);
  while (!stopping_) {
    const SteadyTime now = clock.Now();
    if (child_ != 0) {
      if (Reap()) {
        if (now - started_at > kHealthyLife) backoff = options_.min_backoff;
        next_start = now + backoff;
        backoff = std::min(backoff * 2, options_.max_backoff);
      }
    } else if (now >= next_start) {
      const pid_t survivor = WorkerLockHolder(options_.cache_dir);
      if (survivor == 0) {
        known_survivor = 0;
        child_ = Start();
        started_at = now;
        if (child_ == 0) {
          next_start = now + backoff;
          backoff = std::min(backoff * 2, options_.max_backoff);
        }
      } else {
        next_start = now + absl::Seconds(1);
        if (survivor != known_survivor) {
          known_survivor = survivor;
          LogInfo("a worker of an earlier server is still running; waiting for it",
                  {{"pid", survivor}});
          const std::vector<std::string> arguments =
              survivor > 0 ? ArgumentsOf(survivor) : std::vector<std::string>();
          if (!arguments.empty() &&
              std::find(arguments.begin(), arguments.end(), options_.server) == arguments.end()) {
            LogWarning("it connects to another address; asking it to end", {{"pid", survivor}});
            kill(survivor, SIGTERM);
          }
        }
      }
    }
    options_.after_look();
    wake_.WaitFor(mu_, kPollInterval);
  }
}

void LocalWorker::Stop(absl::Duration grace) {
  StopSupervising();
  RealClock clock;
  const SteadyTime deadline = clock.Now() + grace;
  const bool is_child = child_ != 0;
  const pid_t worker = is_child ? child_ : WorkerLockHolder(options_.cache_dir);
  if (worker <= 0) return;
  LogInfo("asking the local worker to end", {{"pid", worker}});
  kill(worker, SIGTERM);
  while (true) {
    if (is_child ? Reap() : WorkerLockHolder(options_.cache_dir) != worker) return;
    if (clock.Now() > deadline) break;
    absl::SleepFor(absl::Milliseconds(20));
  }
  LogWarning("the local worker did not end in time", {{"pid", worker}});
  if (!is_child) return;
  kill(-worker, SIGKILL);
  waitpid(worker, nullptr, 0);
  child_ = 0;
}

}  // namespace nerf
