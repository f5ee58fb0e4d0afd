#include "worker/engine/engine_child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/process/process_arguments.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

constexpr int kEngineFd = 3;
// Exit codes of a child that did not become an engine.
constexpr int kNoSandbox = 126, kNoProgram = 127;

std::vector<std::string> WithProgram(const EngineProcessOptions& options) {
  std::vector<std::string> arguments = {options.program};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  return arguments;
}

}  // namespace

EngineChild::EngineChild(EngineSandbox sandbox, const EngineProcessOptions& options, UniqueFd ours,
                         UniqueFd theirs)
    : sandbox_(std::move(sandbox)),
      arguments_(WithProgram(options)),
      argv_(ArgvOf(arguments_)),
      ours_(std::move(ours)),
      theirs_(std::move(theirs)) {}

absl::StatusOr<std::unique_ptr<EngineChild>> EngineChild::Prepare(
    const EngineProcessOptions& options, const EngineAccess& access) {
  if (::access(options.program.c_str(), X_OK) != 0) {
    return ErrnoToStatus(errno, "run " + options.program);
  }
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return ErrnoToStatus(errno, "socketpair");
  }
  UniqueFd ours(pair[0]), theirs(pair[1]);
  fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  EngineSandboxOptions limits = options.sandbox;
  limits.read_paths.insert(limits.read_paths.end(), access.read_paths.begin(),
                           access.read_paths.end());
  limits.write_paths.insert(limits.write_paths.end(), access.write_paths.begin(),
                            access.write_paths.end());
  limits.ranks = access.ranks;
  NERF_ASSIGN_OR_RETURN(EngineSandbox sandbox, EngineSandbox::Build(limits, options.program));
  return std::unique_ptr<EngineChild>(
      new EngineChild(std::move(sandbox), options, std::move(ours), std::move(theirs)));
}

pid_t EngineChild::Fork(bool traced) const {
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid != 0) return pid;
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kNoProgram);  // the parent died before the line above
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal_number : {SIGTERM, SIGINT, SIGPIPE, SIGHUP}) signal(signal_number, SIG_DFL);
  if (theirs_.get() == kEngineFd) {
    fcntl(kEngineFd, F_SETFD, 0);
  } else if (dup2(theirs_.get(), kEngineFd) < 0) {
    _exit(kNoProgram);
  }
  if (traced && (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0 || raise(SIGSTOP) != 0)) {
    _exit(kNotTraced);
  }
  if (!sandbox_.Apply()) _exit(kNoSandbox);
  execve(argv_[0], argv_.data(), sandbox_.environment());
  _exit(kNoProgram);
}

}  // namespace nerf
