#include "engine/program/session/rank_processes.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <stop_token>

#include "absl/time/clock.h"
#include "common/process/process_arguments.h"
#include "common/sleep.h"
#include "common/status_macros.h"
#include "engine/base/check.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr char kRankProgram[] = "/proc/self/exe";
constexpr absl::Duration kLook = absl::Milliseconds(10);

// Starts this program. Its standard output is our standard error: ours is for what rank 0 says. In
// a process group of its own it gets no Ctrl-C.
absl::StatusOr<pid_t> Spawn(const std::vector<std::string>& arguments, int socket) {
  const std::vector<char*> argv = ArgvOf(arguments);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, socket, RankProcesses::kSocket);
  posix_spawn_file_actions_addclosefrom_np(&actions, RankProcesses::kSocket + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, kRankProgram, &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return ErrnoToStatus(error, "start another rank");
  return pid;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankProcesses>> RankProcesses::Start(int n_ranks) {
  const std::vector<std::string> arguments = ArgumentsOf(getpid());
  if (arguments.empty()) return absl::InternalError("cannot read this process's arguments");
  std::unique_ptr<RankProcesses> ranks(new RankProcesses);
  for (int rank = 1; rank < n_ranks; ++rank) {
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
      return ErrnoToStatus(errno, "make a socket for another rank");
    ranks->sockets_.emplace_back(fds[0]);
    const UniqueFd theirs(fds[1]);
    std::vector<std::string> of_rank = arguments;
    of_rank.insert(of_rank.end(), {"--rank", std::to_string(rank)});
    NERF_ASSIGN_OR_RETURN(const pid_t pid, Spawn(of_rank, theirs.get()));
    ranks->processes_.push_back(pid);
  }
  return ranks;
}

RankProcesses::~RankProcesses() {
  for (const pid_t pid : processes_) {
    if (pid == 0) continue;
    kill(pid, SIGKILL);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
  }
}

void RankProcesses::Reap(size_t i, int status) {
  processes_[i] = 0;
  if (WIFSIGNALED(status) && killed_.empty()) {
    killed_ = fmt::format("rank {} was killed by signal {}", i + 1, WTERMSIG(status));
  } else if (WIFEXITED(status) && WEXITSTATUS(status) != 0 && failed_.empty()) {
    failed_ = fmt::format("rank {} ended with exit code {}", i + 1, WEXITSTATUS(status));
  }
}

std::string RankProcesses::Loss(absl::Duration patience) {
  const absl::Time deadline = absl::Now() + patience;
  while (true) {
    for (size_t i = 0; i < processes_.size(); ++i) {
      int status = 0;
      if (processes_[i] != 0 && waitpid(processes_[i], &status, WNOHANG) == processes_[i])
        Reap(i, status);
    }
    // A rank that was killed makes others fail, so it is the cause.
    if (!killed_.empty()) return killed_;
    if (absl::Now() >= deadline) return failed_;
    SleepUnlessStopped(kLook, std::stop_token());
  }
}

void DieWithParent() { NERF_CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0); }

}  // namespace nerf
