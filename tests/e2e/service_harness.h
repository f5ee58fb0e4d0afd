#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/server/web/web_client.h"
#include "tests/testing/paths.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/wait_until.h"

namespace nerf {

using Json = nlohmann::json;

inline std::string ReadWholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A running copy of a built binary with its output in files. Killed by the destructor.
class BinaryProcess {
 public:
  // `environment` ("NAME=value") is added to ours. Output goes to `prefix`.out and `prefix`.err. It
  // gets SIGTERM if the test's process dies.
  BinaryProcess(const std::string& binary, std::vector<std::string> arguments,
                std::vector<std::string> environment, const std::string& prefix)
      : prefix_(prefix), started_(absl::Now()) {
    arguments.insert(arguments.begin(), BinDir() + "/" + binary);
    for (char** variable = environ; *variable != nullptr; ++variable)
      environment.push_back(*variable);
    std::vector<char*> argv, envp;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    for (std::string& variable : environment) envp.push_back(variable.data());
    envp.push_back(nullptr);
    const std::string out = prefix + ".out", err = prefix + ".err";
    pid_ = fork();
    if (pid_ == 0) {
      setpgid(0, 0);
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      const int out_fd = open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
      const int err_fd = open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
      dup2(out_fd, STDOUT_FILENO);
      dup2(err_fd, STDERR_FILENO);
      execve(argv[0], argv.data(), envp.data());
      _exit(127);
    }
  }
  ~BinaryProcess() {
    if (pid_ <= 0) return;
    Kill(SIGKILL);
    Wait(absl::Seconds(5));
  }
  BinaryProcess(const BinaryProcess&) = delete;
  BinaryProcess& operator=(const BinaryProcess&) = delete;

  void Kill(int signal_number) const {
    if (pid_ > 0) kill(pid_, signal_number);
  }

  // The exit code (128 + signal if killed); nullopt if it still runs after `timeout`.
  std::optional<int> Wait(absl::Duration timeout) {
    if (code_.has_value()) return code_;
    int status = 0;
    if (!WaitUntil(timeout, [&] { return waitpid(pid_, &status, WNOHANG) == pid_; }))
      return std::nullopt;
    pid_ = 0;
    code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return code_;
  }

  pid_t pid() const { return pid_; }
  absl::Time started() const { return started_; }
  std::string out() const { return ReadWholeFile(prefix_ + ".out"); }
  std::string err() const { return ReadWholeFile(prefix_ + ".err"); }

  // Standard output as JSON lines, without an incomplete last line.
  std::vector<Json> lines() const {
    std::vector<Json> result;
    const std::string text = out();
    for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      Json line = Json::parse(text.substr(begin, end - begin), nullptr, false);
      EXPECT_FALSE(line.is_discarded()) << text.substr(begin, end - begin);
      result.push_back(std::move(line));
    }
    return result;
  }

 private:
  const std::string prefix_;
  const absl::Time started_;
  pid_t pid_ = -1;
  std::optional<int> code_;
};

// Exit code and output of a nerfctl.
struct CtlResult {
  int code = -1;  // -1: timed out
  std::string out, err;
  absl::Duration took;

  Json json() const { return Json::parse(out, nullptr, false); }
};

// The messages that a `job watch -o jsonl` has printed.
struct WatchRecord {
  std::vector<Json> messages;

  // The events that a watch never skips, as "sequence kind state attempt".
  std::vector<std::string> Milestones() const {
    std::vector<std::string> result;
    for (const Json& message : messages) {
      const std::string kind = message["kind"];
      if (kind != "STATE_CHANGED" && kind != "CHECKPOINT_COMMITTED") continue;
      const Json& job = message["job"];
      result.push_back(std::to_string(message["sequence"].get<int>()) + " " + kind + " " +
                       job["state"].get<std::string>() + " " +
                       std::to_string(job["attempt"].get<int>()));
    }
    return result;
  }

  // The states in order, without repetitions.
  std::vector<std::string> States() const {
    std::vector<std::string> result;
    for (const Json& message : messages) {
      if (!message.contains("job")) continue;
      const std::string state = message["job"]["state"];
      if (result.empty() || result.back() != state) result.push_back(state);
    }
    return result;
  }

  // Expects that sequence numbers have no hole and never decrease, and that no message has `gap`.
  void ExpectGapFree() const {
    ASSERT_FALSE(messages.empty());
    EXPECT_EQ(messages[0]["kind"], "SNAPSHOT");
    int last = messages[0]["sequence"].get<int>();
    for (const Json& message : messages) {
      const int sequence = message["sequence"].get<int>();
      EXPECT_FALSE(message["gap"].get<bool>()) << message;
      EXPECT_GE(sequence, last);
      EXPECT_LE(sequence, last + 1) << "events are missing before " << message;
      const std::string kind = message["kind"];
      if (kind == "STATE_CHANGED" || kind == "CHECKPOINT_COMMITTED") {
        EXPECT_EQ(sequence, last + 1) << "repeated event: " << message;
      }
      last = sequence;
    }
  }
};

// A time limit; longer in sanitized builds, where training is about ten times slower.
#ifdef NERF_SANITIZED
inline constexpr int kSlower = 8;
#else
inline constexpr int kSlower = 1;
#endif

// The four binaries as a user runs them: nerfd with its own folder and free ports, the worker and
// engine that it starts, and nerfctl. All processes have a mark in their environment; at the end of
// a test, processes with the mark are killed.
class ServiceTest : public testing::Test {
 protected:
  static constexpr absl::Duration kLong = absl::Seconds(60 * kSlower);
  static constexpr absl::Duration kPause = absl::Milliseconds(40);  // between calls

  ServiceTest() : mark_("NERF_E2E_MARK=" + std::filesystem::path(dir_.path()).filename().string()) {
    std::filesystem::create_directory(dir_ / "logs");
  }

  void TearDown() override {
    if (HasFailure()) {
      for (int i = 1; i <= n_servers_; ++i) {
        const std::string log = ReadWholeFile(dir_ / "logs/nerfd-" + std::to_string(i) + ".err");
        printf("---- nerfd %d\n%s\n", i, log.c_str());
      }
    }
    ctls_.clear();
    nerfd_.reset();
    // Kill the worker before its engine, because it would start another one.
    for (const char* name : {"nerfd", "nerf-worker", "nerf-engine", "nerfctl"}) {
      for (const pid_t pid : MarkedProcesses(name)) kill(pid, SIGKILL);
    }
    EXPECT_TRUE(
        WaitUntil(absl::Seconds(20 * kSlower), [&] { return MarkedProcesses("").empty(); }));
  }

  // Starts nerfd, also again, with short times, which `flags` can override. Returns false if it
  // does not start.
  bool StartNerfd(const std::vector<std::string>& flags = {},
                  std::vector<std::string> environment = {}) {
    std::vector<std::string> arguments = {
        "--data-dir",  data_dir(),     "--listen",    "127.0.0.1:0", "--metrics-listen",
        "127.0.0.1:0", "--web-listen", "127.0.0.1:0", "--lease-ttl", "5s"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    if (std::find(flags.begin(), flags.end(), "--checkpoint-interval") == flags.end())
      arguments.insert(arguments.end(), {"--checkpoint-interval", "1s"});
    const std::string ports = data_dir() + "/nerfd.ports";
    unlink(ports.c_str());
    nerfd_.reset();
    environment.push_back(mark_);
    environment.push_back("NERFD_SHUTDOWN_DELAY=0s");
    nerfd_ = std::make_unique<BinaryProcess>("nerfd", arguments, environment,
                                             dir_ / "logs/nerfd-" + std::to_string(++n_servers_));
    return WaitUntil(absl::Seconds(20 * kSlower), [&] {
      const Json json = Json::parse(ReadWholeFile(ports), nullptr, false);
      if (!json.is_object()) return false;
      address_ = json.value("grpc", "");
      metrics_address_ = json.value("metrics", "");
      web_address_ = json.value("web", "");
      return true;
    });
  }

  // Flags for the ports of the previous nerfd.
  std::vector<std::string> SamePorts() const {
    return {"--listen", address_, "--metrics-listen", metrics_address_};
  }

  std::unique_ptr<BinaryProcess> Start(const std::string& binary,
                                       const std::vector<std::string>& arguments) {
    return std::make_unique<BinaryProcess>(
        binary, arguments,
        std::vector<std::string>{mark_, "NERFCTL_SERVER=" + address_, "NO_COLOR=1"},
        dir_ / "logs/" + binary + "-" + std::to_string(++n_processes_));
  }

  // Runs nerfctl to its end.
  CtlResult Ctl(const std::vector<std::string>& arguments, absl::Duration timeout = kLong) {
    const auto process = Start("nerfctl", arguments);
    CtlResult result;
    result.code = process->Wait(timeout).value_or(-1);
    result.took = absl::Now() - process->started();
    result.out = process->out();
    result.err = process->err();
    return result;
  }

  // Starts a nerfctl in the background, until the end of the test.
  BinaryProcess& StartCtl(const std::vector<std::string>& arguments) {
    ctls_.push_back(Start("nerfctl", arguments));
    return *ctls_.back();
  }

  BinaryProcess& StartWatch(const std::string& job) {
    return StartCtl({"job", "watch", job, "-o", "jsonl"});
  }

  static WatchRecord Seen(const BinaryProcess& watch) { return {watch.lines()}; }

  // The sample scene with a few views, which is fast to read and evaluate.
  std::string SmallScene(int n_train = 16, int n_test = 2) {
    namespace fs = std::filesystem;
    const fs::path from = fs::path(SourceDir()) / "examples/mic";
    const fs::path to = dir_ / ("scene-" + std::to_string(++n_scenes_));
    for (const auto& [split, n] : {std::pair("train", n_train), std::pair("test", n_test)}) {
      fs::create_directories(to / split);
      const std::string name = std::string("transforms_") + split + ".json";
      Json transforms = Json::parse(ReadWholeFile(from / name));
      Json& frames = transforms["frames"];
      frames.erase(frames.begin() + n, frames.end());
      for (const Json& frame : frames) {
        const std::string image = frame["file_path"].get<std::string>() + ".png";
        fs::copy_file(from / image, to / image);
      }
      std::ofstream(to / name) << transforms;
    }
    return to;
  }

  // Uploads a small scene under the name `small`.
  void CreateSmallScene() {
    const CtlResult created = Ctl({"scene", "create", SmallScene(), "--id", "small"});
    ASSERT_EQ(created.code, 0) << created.err;
  }

  // Queues a job whose steps take milliseconds and whose checkpoints have 2 MB.
  CtlResult CreateJob(const std::string& id, const std::vector<std::string>& flags,
                      const std::string& scene = "small") {
    std::vector<std::string> arguments = {"job", "create", scene, "--id", id, "-o", "json"};
    for (const char* setting :
         {"log2_hashmap_size=12", "grid_resolution=32", "grid_update_interval=4", "step=0.02",
          "target_samples=2048", "initial_rays=16"}) {
      arguments.insert(arguments.end(), {"--set", setting});
    }
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return Ctl(arguments);
  }

  Json GetJob(const std::string& id) {
    const CtlResult shown = Ctl({"job", "show", id, "-o", "json"});
    EXPECT_EQ(shown.code, 0) << shown.err;
    return shown.json();
  }

  // The answer of "JobService/GetJob" and the like on the web port, whose JSON is that of nerfctl;
  // null where there is none. For polls: a nerfctl for each look, of 30 ms of a processor, would
  // slow what is waited for.
  Json Ask(const std::string& method, const Json& request) const {
    std::string token = ReadWholeFile(data_dir() + "/admin.token");
    while (token.ends_with('\n')) token.pop_back();
    const WebAnswer answer = WebClient(PortOf(web_address_))
                                 .Ask(HttpRequest("POST", "/nerf.v1." + method,
                                                  "Content-Type: application/json\r\n"
                                                  "Authorization: Bearer " +
                                                      token + "\r\n",
                                                  request.dump()));
    return answer.status == 200 ? Json::parse(answer.body, nullptr, false) : Json();
  }

  // Polls the job until `condition` holds. After the time limit, fails with its last state.
  bool WaitForJob(const std::string& id, const std::function<bool(const Json&)>& condition,
                  absl::Duration timeout = kLong) {
    Json job;
    const bool done = WaitUntil(timeout, [&] {
      job = Ask("JobService/GetJob", {{"name", "projects/default/jobs/" + id}});
      if (!job.is_object()) job = GetJob(id);
      if (condition(job)) return true;
      absl::SleepFor(kPause);
      return false;
    });
    if (!done) ADD_FAILURE() << "timed out waiting for job " << id << ": " << job.dump(1);
    return done;
  }
  bool WaitForState(const std::string& id, const std::string& state,
                    absl::Duration timeout = kLong) {
    return WaitForJob(
        id, [&](const Json& job) { return job["state"] == state; }, timeout);
  }
  // True for a job in training that has reported steps.
  bool WaitForSteps(const std::string& id, int step = 1) {
    return WaitForJob(
        id, [&](const Json& job) { return job["state"] == "RUNNING" && StepOf(job) >= step; });
  }
  bool WaitForCheckpoint(const std::string& id) {
    return WaitForJob(id, [&](const Json& job) { return LastCheckpoint(job) > 0; });
  }

  static int StepOf(const Json& job) {
    const Json& training = job["trainingStatus"];
    return training.contains("progress") ? training["progress"]["step"].get<int>() : 0;
  }
  // Step of the newest checkpoint; 0 without one.
  static int LastCheckpoint(const Json& job) {
    const Json& checkpoints = job["trainingStatus"]["checkpoints"];
    return checkpoints.empty() ? 0 : checkpoints.back()["step"].get<int>();
  }

  // GET http://metrics/metrics.
  std::string Metrics() const {
    const WebAnswer answer =
        WebClient(PortOf(metrics_address_)).Ask(HttpRequest("GET", "/metrics"));
    EXPECT_EQ(answer.status, 200);
    return answer.body;
  }

  // Processes of this test by the name of their binary; "" means any.
  std::vector<pid_t> MarkedProcesses(const std::string& name) const {
    std::vector<pid_t> result;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
      const std::string number = entry.path().filename();
      if (number.find_first_not_of("0123456789") != std::string::npos) continue;
      // Variables end with a zero byte. A zombie has none.
      const std::string environment = ReadWholeFile(entry.path() / "environ");
      if (environment.find(mark_ + '\0') == std::string::npos) continue;
      // Linux adds this suffix if the binary was replaced meanwhile.
      const std::string program =
          std::filesystem::read_symlink(entry.path() / "exe", ignored).filename();
      if (!name.empty() && program != name && program != name + " (deleted)") continue;
      result.push_back(std::stoi(number));
    }
    return result;
  }

  // Waits for exactly one process of this name, other than `other`; 0 after the time limit.
  pid_t WaitForOnly(const std::string& name, pid_t other = 0) const {
    pid_t pid = 0;
    WaitUntil(absl::Seconds(20 * kSlower), [&] {
      const std::vector<pid_t> all = MarkedProcesses(name);
      pid = all.size() == 1 && all[0] != other ? all[0] : 0;
      return pid != 0;
    });
    return pid;
  }

  // Processor time that a process has used.
  static absl::Duration ProcessorTime(pid_t pid) {
    const std::string stat = ReadWholeFile("/proc/" + std::to_string(pid) + "/stat");
    const size_t name_end = stat.rfind(')');
    if (name_end == std::string::npos) return absl::ZeroDuration();
    std::istringstream fields(stat.substr(name_end + 1));
    std::string skipped;
    for (int i = 0; i < 11; ++i) fields >> skipped;
    double user = 0, system = 0;
    fields >> user >> system;
    return absl::Seconds((user + system) / static_cast<double>(sysconf(_SC_CLK_TCK)));
  }

  static int PortOf(const std::string& address) {
    return std::stoi("0" + address.substr(address.rfind(':') + 1));
  }

  std::string data_dir() const { return dir_ / "data"; }
  BinaryProcess& nerfd() { return *nerfd_; }
  const std::string& address() const { return address_; }

  TempDir dir_;

 private:
  const std::string mark_;
  std::unique_ptr<BinaryProcess> nerfd_;
  std::vector<std::unique_ptr<BinaryProcess>> ctls_;
  std::string address_, metrics_address_, web_address_;
  int n_servers_ = 0, n_processes_ = 0, n_scenes_ = 0;
};

}  // namespace nerf
