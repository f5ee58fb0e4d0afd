#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/files/file_io.h"

namespace nerf {

// A program to run as a child process.
struct ChildProcessSpec {
  // The program, a path or a name that is looked for in PATH, then its arguments. No shell reads
  // them.
  std::vector<std::string> arguments;
  // Variables that are added to this process's environment, or replace those of the same name.
  std::vector<std::pair<std::string, std::string>> environment;
  std::string folder;  // it starts in; empty: this process's
  absl::Duration time_limit = absl::InfiniteDuration();
  // How long it has to clean up when Wait ends it: its group gets SIGTERM, and SIGKILL after this
  // time. It then also gets SIGTERM, and no SIGPIPE, when this process dies. Zero: SIGKILL at once.
  absl::Duration stop_grace = absl::ZeroDuration();
  uint64_t max_memory_bytes = 0;     // of data it may allocate (RLIMIT_DATA); 0: no limit
  uint64_t max_file_bytes = 0;       // of each file it may write (RLIMIT_FSIZE); 0: no limit
  bool inherits_environment = true;  // false: it gets `environment` alone
  // Called in the child right before the program starts there: async-signal-safe. False: it does
  // not start, and has exited with 126. May be empty.
  std::function<bool()> prepare = {};
};

// How a process ended.
struct ChildProcessEnd {
  enum class Kind {
    kExited,     // with `code`
    kSignaled,   // by signal `code`, not sent by this class
    kTimeLimit,  // ended: it ran past the limit
    kStopped,    // ended: a stop was requested
  };
  Kind kind = Kind::kExited;
  int code = 0;
  std::string last_output;  // the end of standard output and error, at most 16 KiB

  bool ok() const { return kind == Kind::kExited && code == 0; }
};

// The file of a program: `name` itself if it has a slash, else the first executable of that name in
// PATH. NotFound if there is none.
absl::StatusOr<std::string> FindProgram(const std::string& name);

// A process in its own process group, if this process may make one, with one pipe for standard
// output and error and, optionally, one for standard input. The destructor kills the group and
// reaps the process. It dies with the thread that started it, or gets SIGTERM then. Not
// thread-safe.
class ChildProcess {
 public:
  // Errors: NotFound if there is no such program; those of fork and pipe.
  static absl::StatusOr<ChildProcess> Start(const ChildProcessSpec& spec, bool has_input = false);
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

  // OnLine is called with each line of the output, without its end; OnTick at least once a second
  // while the process runs. Both may be empty.
  using OnLine = std::function<void(std::string_view line)>;
  using OnTick = std::function<void()>;

  // Writes to standard input while it reads output. Errors: Aborted if the process reads no more
  // (Wait then returns how it ended), Cancelled after a stop, DeadlineExceeded past the limit.
  absl::Status Write(std::string_view bytes, const std::stop_token& stop);

  // Closes standard input and reads output until the process has ended.
  ChildProcessEnd Wait(const OnLine& on_line, const OnTick& on_tick, const std::stop_token& stop);

 private:
  ChildProcess(pid_t pid, UniqueFd output, UniqueFd input, const ChildProcessSpec& spec);

  // False at the end of the output.
  bool ReadOutput(const OnLine& on_line);
  void TakeBytes(std::string_view bytes, const OnLine& on_line);
  void SignalGroup(int signal) const;

  pid_t pid_;  // -1 once reaped or moved from
  UniqueFd output_, input_;
  absl::Time deadline_;
  absl::Duration stop_grace_;
  std::string line_, last_output_;
};

// Start and Wait in one call. Errors as Start.
absl::StatusOr<ChildProcessEnd> RunChildProcess(const ChildProcessSpec& spec,
                                                const ChildProcess::OnLine& on_line,
                                                const ChildProcess::OnTick& on_tick,
                                                const std::stop_token& stop);

}  // namespace nerf
