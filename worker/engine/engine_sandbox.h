#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files/file_io.h"
#include "worker/engine/engine_rules.h"

struct sock_filter;

namespace nerf {

// The limits of an engine process, built before the fork and applied between fork and exec:
//   Landlock      reads its program, libraries and read_paths; uses devices; writes write_paths;
//                 executes nothing but its program and `programs`; no TCP, no signals to others
//   seccomp       the calls that an engine needs and no others: no sockets but those of its device,
//                 no processes unless it has `programs`, and then no groups or sessions; no
//                 tracing, namespaces, mounts or keys, no changes of modes, owners, times or
//                 attributes of files
//   capabilities  none, also as root, so that read-only files stay so
//   rlimits       no core files; size of files, number of descriptors, memory where that is limited
//   memory        the first to be killed where the machine has none left
//   environment   settings of libraries, without tokens and loader variables
// Where the kernel lacks Landlock, the rest holds. Movable; one serves every launch.
class EngineSandbox {
 public:
  // `program` is the engine's path. Errors: those of the system.
  static absl::StatusOr<EngineSandbox> Build(const EngineSandboxOptions& options,
                                             const std::string& program);
  // With rules other than RulesOf.
  static absl::StatusOr<EngineSandbox> Build(const EngineSandboxOptions& options,
                                             const EngineRules& rules);
  ~EngineSandbox();
  EngineSandbox(EngineSandbox&&) noexcept;
  EngineSandbox& operator=(EngineSandbox&&) = delete;

  // Applies the limits to this process. For the child of a fork: async-signal-safe. False if one
  // could not be applied; the child must not go on then.
  bool Apply() const;

  // For execve; null-terminated. LD_LIBRARY_PATH also has the folder of a GPU's driver that the
  // loader would miss.
  char* const* environment() const { return environment_.data(); }

  // What holds, for logs: "Landlock 7, seccomp, no capabilities, limits"; "off".
  const std::string& description() const { return description_; }

 private:
  EngineSandbox();

  bool enabled_ = false;
  uint64_t max_file_bytes_ = 0, max_open_files_ = 0, max_data_bytes_ = 0;
  UniqueFd ruleset_;                 // of Landlock; none where the kernel lacks it
  std::vector<sock_filter> filter_;  // of seccomp
  std::vector<std::string> variables_;
  std::vector<char*> environment_;  // into variables_
  std::string description_ = "off";
};

}  // namespace nerf
