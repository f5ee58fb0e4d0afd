#include "tests/client/run_command.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "client/commands/command_line.h"
#include "common/files/file_io.h"
#include "common/ids.h"
#include "tests/testing/paths.h"

extern char** environ;

namespace nerf {

CommandResult RunCommand(const std::vector<std::string>& args, const RunOptions& options) {
  std::ostringstream out, err;
  const RealClock real_clock;
  SystemRandom random;
  Interrupt own_interrupt;
  Io io;
  io.out = &out;
  io.err = &err;
  io.out_is_terminal = io.err_is_terminal = options.terminal;
  io.dumb_terminal = !options.terminal;
  io.clock = options.clock != nullptr ? options.clock : &real_clock;
  io.random = &random;
  io.interrupt = options.interrupt != nullptr ? options.interrupt : &own_interrupt;
  io.first_retry_delay = absl::Milliseconds(1);
  io.notice_delay = options.notice_delay;
  io.tick = options.tick;
  io.worker_patience = options.worker_patience;
  io.contact_patience = options.contact_patience;
  io.restart_patience = options.restart_patience;
  CommandResult result;
  result.exit_code = RunNerfctl(args, io);
  result.out = out.str();
  result.err = err.str();
  return result;
}

RunningBinary::RunningBinary(const std::vector<std::string>& args,
                             const std::map<std::string, std::string>& environment) {
  folder_ = (std::filesystem::temp_directory_path() / "nerfctl-run-XXXXXX").string();
  if (mkdtemp(folder_.data()) == nullptr) std::abort();
  std::vector<std::string> words = {BinDir() + "/nerfctl"};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string variable = *entry;
    if (!environment.contains(variable.substr(0, variable.find('='))))
      variables.push_back(variable);
  }
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  std::vector<char*> envp;
  for (std::string& variable : variables) envp.push_back(variable.data());
  envp.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const int flags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, 1, (folder_ + "/out").c_str(), flags, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, (folder_ + "/err").c_str(), flags, 0600);
  if (posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), envp.data()) != 0) pid_ = -1;
  posix_spawn_file_actions_destroy(&actions);
}

RunningBinary::~RunningBinary() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void RunningBinary::Signal(int signal) const {
  if (pid_ > 0) kill(pid_, signal);
}

std::string RunningBinary::err() const { return ReadFile(folder_ + "/err", 1 << 20).value_or(""); }

CommandResult RunningBinary::Wait() {
  CommandResult result;
  int status = 0;
  if (pid_ > 0 && waitpid(pid_, &status, 0) == pid_) {
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  pid_ = -1;
  result.out = ReadFile(folder_ + "/out", 1 << 24).value_or("");
  result.err = ReadFile(folder_ + "/err", 1 << 24).value_or("");
  return result;
}

ScopedEnvironment::ScopedEnvironment(const std::string& name, const std::string& value)
    : name_(name) {
  setenv(name.c_str(), value.c_str(), 1);
}

ScopedEnvironment::~ScopedEnvironment() { unsetenv(name_.c_str()); }

}  // namespace nerf
