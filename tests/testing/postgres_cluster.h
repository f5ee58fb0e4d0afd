#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace nerf {

// A PostgreSQL of the test's own on a Unix socket in a temporary folder, as an unprivileged user
// where the test runs as root. It ends with the test. The programs come from the folder that
// NERF_POSTGRES_BIN names, or from Debian's package.
class PostgresCluster {
 public:
  // One for all tests of a program; null where PostgreSQL is not installed or does not start.
  static PostgresCluster* Get() {
    static PostgresCluster cluster;
    return cluster.works_ ? &cluster : nullptr;
  }

  // A new, empty database.
  std::string NewDatabase() {
    const std::string name = "test" + std::to_string(++n_databases_);
    Program({"createdb", "-h", socket_dir(), "-U", "nerfd", name});
    return name;
  }
  std::string Uri(const std::string& database) const { return UriAt(socket_dir(), database); }
  // Of a server whose socket is in another folder.
  static std::string UriAt(const std::string& folder, const std::string& database) {
    return "postgresql://nerfd@/" + database + "?host=" + folder;
  }
  std::string socket() const { return socket_dir() + "/.s.PGSQL.5432"; }

  // Runs statements, as an administrator would. Returns what psql prints, without headers.
  std::string Sql(const std::string& database, const std::string& sql) {
    return Program({"psql", "-h", socket_dir(), "-U", "nerfd", "-d", database, "-AtX", "-v",
                    "ON_ERROR_STOP=1", "-c", sql});
  }
  // The columns and rows of a database's schema nerfd, to compare.
  std::string Dump(const std::string& database) {
    std::istringstream dump(
        Program({"pg_dump", "-h", socket_dir(), "-U", "nerfd", "-n", "nerfd", database}));
    std::string text;
    for (std::string line; std::getline(dump, line);) {
      if (line[0] != '\\') text += line + "\n";  // \restrict names a number drawn for each dump
    }
    return text;
  }

  // SIGQUIT: no checkpoint, as after a crash. SIGINT: connections are cut, all is written.
  void Stop(int signal_number) {
    if (pid_ == 0) return;
    kill(pid_, signal_number);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  // Starts it and waits until it takes connections.
  bool Start() {
    pid_ = Spawn({"postgres", "-D", dir_ / "data", "-k", socket_dir(), "-h", "", "-F", "-c",
                  "logging_collector=off", "-c", "max_wal_size=128MB", "-c", "jit=off"},
                 dir_ / "server.log");
    const absl::Time give_up = absl::Now() + absl::Seconds(60);
    while (absl::Now() < give_up) {
      if (ExitCode(Spawn({"pg_isready", "-q", "-h", socket_dir(), "-U", "nerfd"}, "/dev/null")) ==
          0) {
        return true;
      }
      absl::SleepFor(absl::Milliseconds(20));
    }
    Stop(SIGQUIT);
    return false;
  }

 private:
  PostgresCluster() {
    namespace fs = std::filesystem;
    const char* given = std::getenv("NERF_POSTGRES_BIN");
    if (given != nullptr) bin_ = given;
    std::error_code error;
    if (!fs::exists(bin_ + "/initdb", error)) return;
    for (const char* name : {"socket", "data"}) {
      fs::create_directory(dir_ / name);
      if (getuid() == 0) (void)!chown((dir_ / name).c_str(), kNobody, kNobody);
      chmod((dir_ / name).c_str(), 0700);
    }
    chmod(dir_.c_str(), 0711);
    if (ExitCode(Spawn({"initdb", "-D", dir_ / "data", "-U", "nerfd", "-A", "trust", "-E", "UTF8",
                        "--locale=C", "-N"},
                       dir_ / "initdb.log")) != 0) {
      return;
    }
    works_ = Start();
  }
  ~PostgresCluster() {
    Stop(SIGQUIT);
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }

  std::string socket_dir() const { return dir_ / "socket"; }

  // Starts a program of PostgreSQL as its user. It ends with this process.
  pid_t Spawn(std::vector<std::string> arguments, const std::string& output) {
    arguments[0] = bin_ + "/" + arguments[0];
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const int log = open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    const pid_t pid = fork();
    if (pid != 0) {
      close(log);
      return pid;
    }
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    if (chdir(dir_.c_str()) != 0) _exit(126);  // a folder that the user may enter
    if (getuid() == 0 && (setgid(kNobody) != 0 || setuid(kNobody) != 0)) _exit(126);
    prctl(PR_SET_PDEATHSIG, SIGQUIT);
    execv(argv[0], argv.data());
    _exit(127);
  }
  static int ExitCode(pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  // The output of a program; with "failed: " before it where it has failed.
  std::string Program(const std::vector<std::string>& arguments) {
    const std::string output = dir_ / ("output" + std::to_string(++n_outputs_));
    const int code = ExitCode(Spawn(arguments, output));
    std::stringstream text;
    text << std::ifstream(output).rdbuf();
    return code == 0 ? text.str() : "failed: " + text.str();
  }

  static constexpr uid_t kNobody = 65534;

  // In memory where there is room: a new database is 300 files, and -F asks for no disk.
  static std::string MakeFolder() {
    namespace fs = std::filesystem;
    constexpr uintmax_t kRoom = uintmax_t{2} << 30;
    std::error_code error;
    const fs::space_info memory = fs::space("/dev/shm", error);
    const bool has_room = !error && memory.available >= kRoom;
    std::string folder =
        (has_room ? fs::path("/dev/shm") : fs::temp_directory_path()) / "nerf-test-XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) std::abort();
    return folder;
  }

  const std::filesystem::path dir_ = MakeFolder();
  std::string bin_ = "/usr/lib/postgresql/15/bin";
  bool works_ = false;
  pid_t pid_ = 0;
  int n_databases_ = 0, n_outputs_ = 0;
};

}  // namespace nerf
