#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/testing/paths.h"

namespace nerf {

// A running nerfd with its own folder and free ports, for end-to-end tests.
class NerfdProcess {
 public:
  // Starts it. `data_dir` exists; `flags` follow the defaults.
  NerfdProcess(const std::string& data_dir, std::vector<std::string> flags,
               std::vector<std::string> environment = {})
      : data_dir_(data_dir) {
    unlink((data_dir + "/nerfd.ports").c_str());
    std::vector<std::string> arguments = {
        BinDir() + "/nerfd", "--data-dir",       data_dir,      "--listen",
        "127.0.0.1:0",       "--metrics-listen", "127.0.0.1:0", "--web-listen",
        "127.0.0.1:0",       "--shutdown-delay", "0s"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    std::vector<char*> argv, envp;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    for (std::string& variable : environment) envp.push_back(variable.data());
    for (char** variable = environ; *variable != nullptr; ++variable) envp.push_back(*variable);
    envp.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, OutputFile().c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0644);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, ErrorFile().c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), envp.data()) != 0) pid_ = 0;
    posix_spawn_file_actions_destroy(&actions);
  }
  ~NerfdProcess() {
    if (pid_ != 0) {
      Kill(SIGKILL);
      Wait(absl::Seconds(5));
    }
  }

  void Kill(int signal_number) { kill(pid_, signal_number); }

  // The exit code (128 + signal if killed); nullopt if it still runs after `timeout`.
  std::optional<int> Wait(absl::Duration timeout) {
    const absl::Time deadline = absl::Now() + timeout;
    while (true) {
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = 0;
        return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      }
      if (absl::Now() > deadline) return std::nullopt;
      absl::SleepFor(absl::Milliseconds(10));
    }
  }

  // The address that it prints; empty if it does not come up.
  std::string WaitForAddress(const char* key = "grpc") {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (absl::Now() < deadline) {
      const auto json = nlohmann::json::parse(Read(data_dir_ + "/nerfd.ports"), nullptr, false);
      if (json.is_object() && json.contains(key)) return json[key].get<std::string>();
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG | WNOWAIT) == pid_) return "";
      absl::SleepFor(absl::Milliseconds(10));
    }
    return "";
  }

  pid_t pid() const { return pid_; }
  std::string output() const { return Read(OutputFile()); }
  std::string errors() const { return Read(ErrorFile()); }

  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

 private:
  std::string OutputFile() const { return data_dir_ + "/test-stdout"; }
  std::string ErrorFile() const { return data_dir_ + "/test-stderr"; }

  const std::string data_dir_;
  pid_t pid_ = 0;
};

}  // namespace nerf
