#include "common/process/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/status_macros.h"

extern char** environ;

namespace nerf {
namespace {

constexpr size_t kMaxLineBytes = 4096;  // the rest of a longer line is dropped
constexpr size_t kMaxLastOutput = 16 << 10;
constexpr int kTickMs = 500;
constexpr int kNotPrepared = 126, kCannotExecute = 127;  // as in shells

// The data that the child needs between fork and exec. Prepared before, because only
// async-signal-safe calls are allowed there.
struct Launch {
  std::string program, folder;
  std::vector<std::string> arguments, environment;
  std::vector<char*> argv, envp;
  uint64_t max_memory_bytes = 0, max_file_bytes = 0;
  int input = -1, output = -1;
  bool cleans_up = false;  // ChildProcessSpec::stop_grace
  std::function<bool()> prepare;
};

void LimitTo(int resource, uint64_t limit) {
  const rlimit both{limit, limit};
  setrlimit(static_cast<__rlimit_resource_t>(resource), &both);
}

[[noreturn]] void ExecuteInChild(const Launch& launch, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, launch.cleans_up ? SIGTERM : SIGKILL);
  if (getppid() != parent) _exit(kCannotExecute);  // the parent died before the line above
  LimitTo(RLIMIT_CORE, 0);
  if (launch.max_memory_bytes > 0) LimitTo(RLIMIT_DATA, launch.max_memory_bytes);
  if (launch.max_file_bytes > 0) LimitTo(RLIMIT_FSIZE, launch.max_file_bytes);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, launch.cleans_up ? SIG_IGN : SIG_DFL);
  int input = launch.input;
  if (input < 0) input = open("/dev/null", O_RDONLY);
  if (dup2(input, STDIN_FILENO) < 0 || dup2(launch.output, STDOUT_FILENO) < 0 ||
      dup2(launch.output, STDERR_FILENO) < 0) {
    _exit(kCannotExecute);
  }
  if (!launch.folder.empty() && chdir(launch.folder.c_str()) != 0) _exit(kCannotExecute);
  if (launch.prepare && !launch.prepare()) _exit(kNotPrepared);
  execve(launch.program.c_str(), launch.argv.data(), launch.envp.data());
  _exit(kCannotExecute);
}

absl::StatusOr<Launch> PrepareLaunch(const ChildProcessSpec& spec) {
  if (spec.arguments.empty()) return absl::InvalidArgumentError("no program to run");
  Launch launch;
  NERF_ASSIGN_OR_RETURN(launch.program, FindProgram(spec.arguments[0]));
  launch.folder = spec.folder;
  launch.arguments = spec.arguments;
  launch.max_memory_bytes = spec.max_memory_bytes;
  launch.max_file_bytes = spec.max_file_bytes;
  launch.cleans_up = spec.stop_grace > absl::ZeroDuration();
  launch.prepare = spec.prepare;
  for (char** entry = spec.inherits_environment ? environ : nullptr;
       entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    bool is_replaced = false;
    for (const auto& [replaced, value] : spec.environment) is_replaced |= replaced == name;
    if (!is_replaced) launch.environment.emplace_back(text);
  }
  for (const auto& [name, value] : spec.environment) {
    launch.environment.push_back(absl::StrCat(name, "=", value));
  }
  return launch;
}

// Call when the strings no longer move: short strings are stored inside the objects.
void PointAtStrings(Launch* launch) {
  for (std::string& argument : launch->arguments) launch->argv.push_back(argument.data());
  for (std::string& entry : launch->environment) launch->envp.push_back(entry.data());
  launch->argv.push_back(nullptr);
  launch->envp.push_back(nullptr);
}

absl::Status MakePipe(UniqueFd* reading, UniqueFd* writing) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return ErrnoToStatus(errno, "pipe");
  *reading = UniqueFd(fds[0]);
  *writing = UniqueFd(fds[1]);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> FindProgram(const std::string& name) {
  const absl::Status missing = absl::NotFoundError(absl::StrCat("there is no program ", name));
  if (name.empty()) return missing;
  if (name.find('/') != std::string::npos) {
    if (access(name.c_str(), X_OK) != 0) return missing;
    return name;
  }
  const char* path = std::getenv("PATH");
  std::string_view folders = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
  while (!folders.empty()) {
    const size_t colon = folders.find(':');
    const std::string_view folder = folders.substr(0, colon);
    folders = colon == std::string_view::npos ? "" : folders.substr(colon + 1);
    if (folder.empty()) continue;
    std::string candidate = std::string(folder).append("/").append(name);
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return missing;
}

ChildProcess::ChildProcess(pid_t pid, UniqueFd output, UniqueFd input, const ChildProcessSpec& spec)
    : pid_(pid),
      output_(std::move(output)),
      input_(std::move(input)),
      deadline_(absl::Now() + spec.time_limit),
      stop_grace_(spec.stop_grace) {}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      output_(std::move(other.output_)),
      input_(std::move(other.input_)),
      deadline_(other.deadline_),
      stop_grace_(other.stop_grace_),
      line_(std::move(other.line_)),
      last_output_(std::move(other.last_output_)) {}

ChildProcess::~ChildProcess() {
  if (pid_ <= 0) return;
  SignalGroup(SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

absl::StatusOr<ChildProcess> ChildProcess::Start(const ChildProcessSpec& spec, bool has_input) {
  NERF_ASSIGN_OR_RETURN(Launch launch, PrepareLaunch(spec));
  PointAtStrings(&launch);
  UniqueFd output_reading, output_writing, input_reading, input_writing;
  NERF_RETURN_IF_ERROR(MakePipe(&output_reading, &output_writing));
  if (has_input) NERF_RETURN_IF_ERROR(MakePipe(&input_reading, &input_writing));
  launch.output = output_writing.get();
  launch.input = has_input ? input_reading.get() : -1;
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return ErrnoToStatus(errno, "fork");
  if (pid == 0) ExecuteInChild(launch, parent);
  setpgid(pid, pid);  // in parent and child: neither may signal the group before it exists
  fcntl(output_reading.get(), F_SETFL, O_NONBLOCK);
  if (has_input) fcntl(input_writing.get(), F_SETFL, O_NONBLOCK);
  return ChildProcess(pid, std::move(output_reading), std::move(input_writing), spec);
}

void ChildProcess::SignalGroup(int signal) const {
  // In a sandbox that allows no groups the process has none of its own.
  if (pid_ > 0 && kill(-pid_, signal) != 0 && errno == ESRCH) kill(pid_, signal);
}

void ChildProcess::TakeBytes(std::string_view bytes, const OnLine& on_line) {
  last_output_.append(bytes);
  if (last_output_.size() > 2 * kMaxLastOutput) {
    last_output_.erase(0, last_output_.size() - kMaxLastOutput);
  }
  for (const char c : bytes) {
    // Programs that redraw a line end it with a carriage return.
    if (c != '\n' && c != '\r') {
      if (line_.size() < kMaxLineBytes) line_ += c;
      continue;
    }
    if (on_line && !line_.empty()) on_line(line_);
    line_.clear();
  }
}

bool ChildProcess::ReadOutput(const OnLine& on_line) {
  char buffer[16 << 10];
  while (true) {
    const ssize_t n = read(output_.get(), buffer, sizeof(buffer));
    if (n > 0) {
      TakeBytes(std::string_view(buffer, static_cast<size_t>(n)), on_line);
    } else if (n < 0 && errno == EINTR) {
      continue;
    } else {
      return n < 0 && errno == EAGAIN;
    }
  }
}

absl::Status ChildProcess::Write(std::string_view bytes, const std::stop_token& stop) {
  // Writing to an ended process must be an error, not a fatal signal.
  const auto previous = signal(SIGPIPE, SIG_IGN);
  absl::Status status;
  while (!bytes.empty() && status.ok()) {
    if (stop.stop_requested()) {
      status = absl::CancelledError("interrupted");
      break;
    }
    if (absl::Now() > deadline_) {
      status = absl::DeadlineExceededError("the program ran past its time limit");
      break;
    }
    pollfd fds[2] = {{input_.get(), POLLOUT, 0}, {output_.get(), POLLIN, 0}};
    if (poll(fds, 2, kTickMs) < 0 && errno != EINTR) {
      status = ErrnoToStatus(errno, "poll");
      break;
    }
    if (fds[1].revents != 0 && !ReadOutput(nullptr)) {
      status = absl::AbortedError("the program ended before it read all input");
    }
    const ssize_t n = write(input_.get(), bytes.data(), bytes.size());
    if (n > 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
      status = absl::AbortedError("the program reads no more input");
    }
  }
  signal(SIGPIPE, previous);
  return status;
}

ChildProcessEnd ChildProcess::Wait(const OnLine& on_line, const OnTick& on_tick,
                                   const std::stop_token& stop) {
  input_.Reset();
  ChildProcessEnd end;
  if (pid_ <= 0) {  // reaped by an earlier call
    end.code = kCannotExecute;
    return end;
  }
  bool is_stopping = false, is_open = true, has_ended = false;
  absl::Time kill_time = absl::InfiniteFuture();
  int wait_status = 0;
  // The output may be closed early, or be kept open by a process that the program left behind.
  while (!has_ended) {
    pollfd fd{output_.get(), POLLIN, 0};
    poll(&fd, is_open ? 1 : 0, is_open ? kTickMs : 10);
    if (is_open && fd.revents != 0) is_open = ReadOutput(on_line);
    const absl::Time now = absl::Now();
    if (!is_stopping && (stop.stop_requested() || now > deadline_)) {
      end.kind = stop.stop_requested() ? ChildProcessEnd::Kind::kStopped
                                       : ChildProcessEnd::Kind::kTimeLimit;
      is_stopping = true;
      kill_time = now + stop_grace_;
      if (now < kill_time) SignalGroup(SIGTERM);
    }
    if (now >= kill_time) SignalGroup(SIGKILL);
    siginfo_t ended{};
    // Does not reap yet, so that the group's id is not reused before the rest of the group is
    // killed.
    has_ended = waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) != 0
                    ? errno != EINTR
                    : ended.si_pid == pid_;
    if (!has_ended && on_tick) on_tick();
  }
  if (is_open) ReadOutput(on_line);
  if (on_line && !line_.empty()) on_line(line_);
  SignalGroup(SIGKILL);
  while (waitpid(pid_, &wait_status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (!is_stopping && WIFSIGNALED(wait_status)) {
    end.kind = ChildProcessEnd::Kind::kSignaled;
    end.code = WTERMSIG(wait_status);
  } else if (!is_stopping) {
    end.code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : kCannotExecute;
  }
  if (last_output_.size() > kMaxLastOutput) {
    last_output_.erase(0, last_output_.size() - kMaxLastOutput);
  }
  end.last_output = std::move(last_output_);
  return end;
}

absl::StatusOr<ChildProcessEnd> RunChildProcess(const ChildProcessSpec& spec,
                                                const ChildProcess::OnLine& on_line,
                                                const ChildProcess::OnTick& on_tick,
                                                const std::stop_token& stop) {
  NERF_ASSIGN_OR_RETURN(ChildProcess process, ChildProcess::Start(spec));
  return process.Wait(on_line, on_tick, stop);
}

}  // namespace nerf
