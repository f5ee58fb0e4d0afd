#include "worker/engine/engine_trial.h"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/logging.h"
#include "common/messages/rpc_status.h"
#include "common/status_macros.h"
#include "engine/base/protocol/message_splitter.h"
#include "nerf/internal/engine.pb.h"

namespace nerf {
namespace {

constexpr absl::Duration kTimeLimit = absl::Minutes(1);
constexpr size_t kMaxShownPathBytes = 160;
constexpr size_t kMaxNamed = 5;

// Calls that name a file, and in which argument.
struct PathArgument {
  std::string_view call;
  int argument;
};
constexpr std::array kPathArguments = {
    PathArgument{"open", 0},       PathArgument{"openat", 1},    PathArgument{"openat2", 1},
    PathArgument{"access", 0},     PathArgument{"faccessat", 1}, PathArgument{"faccessat2", 1},
    PathArgument{"execve", 0},     PathArgument{"execveat", 1},  PathArgument{"readlink", 0},
    PathArgument{"readlinkat", 1}, PathArgument{"mkdir", 0},     PathArgument{"mkdirat", 1},
    PathArgument{"mknod", 0},      PathArgument{"mknodat", 1},   PathArgument{"unlink", 0},
    PathArgument{"unlinkat", 1},   PathArgument{"chmod", 0},     PathArgument{"fchmodat", 1},
    PathArgument{"rename", 0},     PathArgument{"renameat", 1},  PathArgument{"renameat2", 1}};

std::string NameOf(uint64_t call) {
  char* const name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, static_cast<int>(call));
  if (name == nullptr) return fmt::format("system call {}", call);
  const std::string text = name;
  std::free(name);
  return text;
}

// A string of a traced process.
std::string ReadText(pid_t pid, uint64_t address) {
  std::string text;
  while (text.size() < kMaxShownPathBytes) {
    errno = 0;
    const long word = ptrace(PTRACE_PEEKDATA, pid, reinterpret_cast<void*>(address), nullptr);
    if (errno != 0) break;
    char bytes[sizeof(word) + 1] = {};
    std::copy_n(reinterpret_cast<const char*>(&word), sizeof(word), bytes);
    text += bytes;
    if (std::string_view(bytes).size() < sizeof(word)) break;
    address += sizeof(word);
  }
  return text.substr(0, kMaxShownPathBytes);
}

// For people.
std::string Describe(pid_t pid, uint64_t call, const uint64_t* arguments) {
  const std::string name = NameOf(call);
  if (name == "socket") {
    constexpr uint64_t kTypeMask = 0xf;
    return fmt::format("socket of family {} and type {}", arguments[0], arguments[1] & kTypeMask);
  }
  if (name == "ioctl") {
    std::error_code error;
    const auto file =
        std::filesystem::read_symlink(fmt::format("/proc/{}/fd/{}", pid, arguments[0]), error);
    return fmt::format("ioctl {}", file.string());
  }
  for (const PathArgument& known : kPathArguments) {
    if (known.call == name) {
      return fmt::format("{} {}", name, ReadText(pid, arguments[known.argument]));
    }
  }
  return name;
}

// The threads of an engine that this thread traces, from system call to system call.
class Tracer {
 public:
  // Goes on with whatever has stopped. True while there may be more at once.
  bool Step() {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, WNOHANG | __WALL | __WNOTHREAD);
    if (pid <= 0) return false;
    if (!WIFSTOPPED(status)) {
      calls_.erase(pid);
      if (pid == engine_) end_ = status;
      return true;
    }
    int signal_number = WSTOPSIG(status);
    if (signal_number == (SIGTRAP | 0x80)) {
      OnCall(pid);
      signal_number = 0;
    } else if (status >> 16 != 0 || !calls_.contains(pid)) {
      signal_number = 0;  // an event, or the first stop of a thread
    }
    calls_[pid];
    ptrace(PTRACE_SYSCALL, pid, nullptr, signal_number);
    return true;
  }

  // The child has stopped itself.
  void Begin(pid_t engine, bool traced) {
    engine_ = engine;
    if (!traced) return;
    int status = 0;
    if (waitpid(engine, &status, 0) != engine || !WIFSTOPPED(status)) {
      end_ = status;
      return;
    }
    ptrace(PTRACE_SETOPTIONS, engine, nullptr,
           PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
               PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL);
    calls_[engine];
    ptrace(PTRACE_SYSCALL, engine, nullptr, 0);
  }

  void End() {
    if (!end_.has_value()) {
      kill(-engine_, SIGKILL);
      kill(engine_, SIGKILL);
    }
    while (waitpid(-1, nullptr, __WALL | __WNOTHREAD) > 0) {
    }
  }

  const std::optional<int>& end() const { return end_; }  // wait status of the engine
  std::vector<std::string> TakeRefused() { return std::move(refused_); }

 private:
  struct Call {
    uint64_t number = 0, arguments[6] = {};
  };

  void OnCall(pid_t pid) {
    __ptrace_syscall_info info{};
    if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) <= 0) return;
    Call& call = calls_[pid];
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
      call.number = info.entry.nr;
      std::copy(std::begin(info.entry.args), std::end(info.entry.args), call.arguments);
    } else if (info.op == PTRACE_SYSCALL_INFO_EXIT) {
      const bool is_refused = info.exit.rval == -EPERM || info.exit.rval == -EACCES;
      if (!is_refused && info.exit.rval != -ENOSYS) return;
      const std::string text = Describe(pid, call.number, call.arguments);
      if (std::find(refused_.begin(), refused_.end(), text) == refused_.end()) {
        refused_.push_back(text);
      }
    }
  }

  pid_t engine_ = -1;
  std::map<pid_t, Call> calls_;  // by thread: the call that it is in
  std::vector<std::string> refused_;
  std::optional<int> end_;
};

// nullopt if this system forbids tracing.
absl::StatusOr<std::optional<EngineTrial>> Try(const EngineProcessOptions& options, bool traced) {
  NERF_ASSIGN_OR_RETURN(std::unique_ptr<EngineChild> child, EngineChild::Prepare(options, {}));
  const UniqueFd socket = child->TakeSocket();
  const pid_t engine = child->Fork(traced);
  if (engine < 0) return ErrnoToStatus(errno, "fork");
  child.reset();  // closes the engine's end here
  const RealClock clock;
  const SteadyTime begin = clock.Now();
  Tracer tracer;
  tracer.Begin(engine, traced);
  EngineTrial trial;
  MessageSplitter splitter;
  while (!trial.works && !tracer.end().has_value() && clock.Now() - begin < kTimeLimit) {
    pollfd readable{socket.get(), POLLIN, 0};
    // A traced engine stops at each call, soon after it went on.
    const bool is_busy = tracer.Step() && traced;
    if (poll(&readable, 1, is_busy || traced ? 0 : 10) <= 0) {
      if (!is_busy) sched_yield();
      continue;
    }
    std::array<char, 4096> bytes;
    const ssize_t n = recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (n <= 0) {
      sched_yield();  // it ends
      continue;
    }
    splitter.Add(
        {bytes.data(), static_cast<size_t>(n)},
        [&](const std::string& bytes) {
          internal::EngineMessage message;
          trial.works = trial.works || (message.ParseFromString(bytes) && message.has_hello());
        },
        [] {});
  }
  const std::optional<int> end = tracer.end();
  tracer.End();
  if (end.has_value() && WIFEXITED(*end) && WEXITSTATUS(*end) == EngineChild::kNotTraced) {
    return std::nullopt;
  }
  trial.refused = tracer.TakeRefused();
  return trial;
}

bool NamesFile(const std::string& refused) { return refused.find(" /") != std::string::npos; }

}  // namespace

absl::StatusOr<EngineTrial> TryEngine(const EngineProcessOptions& options) {
  NERF_ASSIGN_OR_RETURN(std::optional<EngineTrial> traced, Try(options, /*traced=*/true));
  if (traced.has_value()) return *std::move(traced);
  NERF_ASSIGN_OR_RETURN(std::optional<EngineTrial> trial, Try(options, /*traced=*/false));
  return trial.value_or(EngineTrial());
}

std::string ExplainSandbox(EngineProcessOptions options) {
  if (!options.sandbox.enabled) return "";
  LogInfo("trying the engine outside its sandbox, to learn why it does not start");
  EngineProcessOptions outside = options;
  outside.sandbox.enabled = false;
  const absl::StatusOr<EngineTrial> free = TryEngine(outside);
  if (!free.ok() || !free->works) return "";
  const absl::StatusOr<EngineTrial> kept_in = TryEngine(options);
  if (!kept_in.ok() || kept_in->works) return "";
  std::vector<std::string> refused;
  for (const std::string& call : kept_in->refused) {
    const auto& also_outside = free->refused;
    if (std::find(also_outside.begin(), also_outside.end(), call) == also_outside.end()) {
      refused.push_back(ToUtf8(call));
    }
  }
  std::string text = "the engine works outside its sandbox and not in it; refused in it: ";
  const size_t n_named = std::min(refused.size(), kMaxNamed);
  for (size_t i = 0; i < n_named; ++i) text += (i > 0 ? ", " : "") + refused[i];
  if (refused.size() > n_named) text += fmt::format(" and {} more", refused.size() - n_named);
  if (refused.empty()) text += "unknown, since this system forbids tracing";
  if (std::any_of(refused.begin(), refused.end(), NamesFile)) {
    text += "; open a folder, file or device to it with --engine-reads PATH, or";
  } else {
    text += ";";
  }
  return text + " start the worker with --no-engine-sandbox (docs/run/security.md)";
}

}  // namespace nerf
