#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/flags/interrupt.h"
#include "common/clock.h"

namespace nerf {

struct CommandResult {
  int exit_code = -1;
  std::string out, err;
};

struct RunOptions {
  const Clock* clock = nullptr;  // unset: the real one
  Interrupt* interrupt = nullptr;
  bool terminal = false;
  absl::Duration notice_delay = absl::InfiniteDuration();  // as in Io
  absl::Duration tick = absl::InfiniteDuration(), worker_patience = absl::ZeroDuration();
  absl::Duration contact_patience = absl::ZeroDuration(), restart_patience = absl::ZeroDuration();
};

// Runs a command line in this process; retries do not wait.
CommandResult RunCommand(const std::vector<std::string>& args, const RunOptions& options = {});

// A running copy of build/<preset>/bin/nerfctl with its output in files.
class RunningBinary {
 public:
  RunningBinary(const std::vector<std::string>& args,
                const std::map<std::string, std::string>& environment = {});
  ~RunningBinary();
  void Signal(int signal) const;
  // Standard error so far.
  std::string err() const;
  CommandResult Wait();

 private:
  std::string folder_;
  int pid_ = -1;
};

inline CommandResult RunBinary(const std::vector<std::string>& args,
                               const std::map<std::string, std::string>& environment = {}) {
  return RunningBinary(args, environment).Wait();
}

// Sets a variable of this process for a scope.
class ScopedEnvironment {
 public:
  ScopedEnvironment(const std::string& name, const std::string& value);
  ~ScopedEnvironment();

 private:
  std::string name_;
};

}  // namespace nerf
