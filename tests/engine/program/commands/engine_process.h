#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "common/files/file_io.h"
#include "fmt/format.h"
#include "tests/testing/paths.h"

namespace nerf {

// A nerf-engine in a process, with its output and errors.
class EngineProcess {
 public:
  explicit EngineProcess(const std::string& arguments,
                         const std::string& program = BinDir() + "/nerf-engine") {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    output_ = UniqueFd(ends[0]);
    const UniqueFd in(ends[1]);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(in.get(), STDOUT_FILENO);
      dup2(in.get(), STDERR_FILENO);
      execl("/bin/sh", "sh", "-c", ("exec " + program + " " + arguments).c_str(), nullptr);
      _exit(127);
    }
  }
  ~EngineProcess() {
    if (pid_ > 0) Wait();
  }

  pid_t pid() const { return pid_; }
  const std::string& said() const { return said_; }

  // The processes that it has started: the other ranks.
  std::vector<pid_t> Ranks() const {
    std::vector<pid_t> ranks;
    std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", pid_));
    for (pid_t rank = 0; children >> rank;) ranks.push_back(rank);
    return ranks;
  }

  // Reads until it has said `sign`; false if it ended before.
  bool ReadUntil(const std::string& sign) {
    char buffer[4096];
    while (said_.find(sign) == std::string::npos) {
      const ssize_t n = read(output_.get(), buffer, sizeof(buffer));
      if (n <= 0) return false;
      said_.append(buffer, static_cast<size_t>(n));
    }
    return true;
  }

  // The exit code, or 128 + the signal that killed it.
  int Wait() {
    ReadUntil("what nobody says");
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = 0;
  UniqueFd output_;
  std::string said_;
};

// Whether two folders hold the same checkpoint and the same model, byte for byte.
inline bool SameTrainingFiles(const std::string& a, const std::string& b) {
  for (const char* name : {"/checkpoint.safetensors", "/model.safetensors"}) {
    const auto of_a = ReadFile(a + name, 1 << 30);
    const auto of_b = ReadFile(b + name, 1 << 30);
    if (!of_a.ok() || !of_b.ok() || *of_a != *of_b) return false;
  }
  return true;
}

}  // namespace nerf
