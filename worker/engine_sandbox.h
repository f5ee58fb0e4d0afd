#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/file_io.h"

struct sock_filter;

namespace nerf {

// What an engine may reach. An engine reads files that strangers have made, so a flaw in one of its
// parsers must open neither tokens, nor the network, nor the jobs of others.
struct EngineSandboxOptions {
  bool enabled = false;
  std::vector<std::string> read_paths = {};   // folders that it may read, besides the system's
  std::vector<std::string> write_paths = {};  // folders that it may read and write
  // Also /dev/shm, where CUDA shares memory between processes. All engines with it share it.
  bool shared_memory = false;
  uint64_t max_file_bytes = uint64_t{64} << 30;
  uint64_t max_open_files = 4096;
  // Also TCP, for an engine that trains a job together with those of other workers.
  bool ranks = false;
};

// The limits of an engine process, built before the fork and applied between fork and exec:
//   Landlock      reads its program, the system's libraries, devices and read_paths; writes
//                 write_paths; executes nothing but its program; no TCP, no signals to others
//   seccomp       no sockets, no tracing, no changes of modes and owners, no namespaces, mounts or
//                 keys
//   capabilities  none, also as root, so that read-only files stay so
//   rlimits       no core files; size of files, number of descriptors
//   environment   settings of libraries, without tokens and loader variables
// Where the kernel lacks Landlock, the rest holds. Movable; one serves every launch.
class EngineSandbox {
 public:
  // `program` is the engine's path. Errors: those of the system.
  static absl::StatusOr<EngineSandbox> Build(const EngineSandboxOptions& options,
                                             const std::string& program);
  ~EngineSandbox();
  EngineSandbox(EngineSandbox&&) noexcept;
  EngineSandbox& operator=(EngineSandbox&&) = delete;

  // Applies the limits to this process. For the child of a fork: async-signal-safe. False if one
  // could not be applied; the child must not go on then.
  bool Apply() const;

  // For execve; null-terminated.
  char* const* environment() const { return environment_.data(); }

  // What holds, for logs: "Landlock 7, seccomp, no capabilities, limits"; "off".
  const std::string& description() const { return description_; }

 private:
  EngineSandbox();

  bool enabled_ = false;
  uint64_t max_file_bytes_ = 0, max_open_files_ = 0;
  UniqueFd ruleset_;                 // of Landlock; none where the kernel lacks it
  std::vector<sock_filter> filter_;  // of seccomp
  std::vector<std::string> variables_;
  std::vector<char*> environment_;  // into variables_
  std::string description_ = "off";
};

}  // namespace nerf
