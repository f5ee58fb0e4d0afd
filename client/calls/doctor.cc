#include "client/calls/doctor.h"

#include <fcntl.h>
#include <grpcpp/channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>

#include "client/calls/session.h"
#include "client/flags/names.h"
#include "client/flags/text_format.h"
#include "common/error_reason.h"
#include "common/files/file_io.h"
#include "common/process/process_arguments.h"
#include "common/status_macros.h"
#include "fmt/format.h"
#include "nerf/v1/admin_service.grpc.pb.h"

extern char** environ;

namespace nerf {
namespace {

constexpr double kLowSpaceFraction = 0.05;
constexpr double kLowSpaceBytes = 2e9;
constexpr size_t kMaxOutputBytes = 1 << 20;
constexpr absl::Duration kEngineTimeout = absl::Seconds(20);
constexpr absl::Duration kProbeTimeout = absl::Seconds(5);

DoctorFinding Good(std::string check, std::string detail) {
  return {std::move(check), CheckResult::kOk, std::move(detail), ""};
}
DoctorFinding Note(std::string check, std::string detail, std::string remedy = "") {
  return {std::move(check), CheckResult::kNote, std::move(detail), std::move(remedy)};
}
DoctorFinding Wrong(std::string check, std::string detail, std::string remedy) {
  return {std::move(check), CheckResult::kProblem, std::move(detail), std::move(remedy)};
}

// grpc.health.v1.Health/Check. Debian ships its server side without the generated messages; request
// {} is no bytes, and the reply's one field is the status (1: SERVING).
absl::Status AskHealth(Session& session, int* serving_status) {
  grpc::GenericStub stub(session.channel());
  const grpc::Slice nothing;
  const grpc::ByteBuffer request(&nothing, 1);
  grpc::ByteBuffer response;
  NERF_RETURN_IF_ERROR(session.CallWith(kProbeTimeout, [&](grpc::ClientContext* context) {
    std::promise<grpc::Status> done;
    stub.UnaryCall(context, "/grpc.health.v1.Health/Check", {}, &request, &response,
                   [&](grpc::Status result) { done.set_value(std::move(result)); });
    return done.get_future().get();
  }));
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!response.Dump(&slices).ok()) return absl::InternalError("unreadable answer");
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  *serving_status = bytes.size() == 2 && bytes[0] == 0x08 ? bytes[1] : 0;
  return absl::OkStatus();
}

// The text of a problem that nerf-engine reports, from a string or from an object's usual keys.
std::string TextOf(const nlohmann::json& problem) {
  if (problem.is_string()) return problem.get<std::string>();
  if (!problem.is_object()) return problem.dump();
  std::string text;
  for (const char* key : {"problem", "message", "text", "detail", "remedy", "fix"}) {
    const auto found = problem.find(key);
    if (found == problem.end() || !found->is_string()) continue;
    text += (text.empty() ? "" : ": ") + found->get<std::string>();
  }
  return text.empty() ? problem.dump() : text;
}

std::vector<DoctorFinding> ReadEngineReport(const std::string& output, int exit_code) {
  nlohmann::json report;
  size_t begin = 0;
  while (begin < output.size()) {
    const size_t end = std::min(output.find('\n', begin), output.size());
    nlohmann::json line = nlohmann::json::parse(output.substr(begin, end - begin), nullptr,
                                                /*allow_exceptions=*/false);
    if (line.is_object()) report = std::move(line);
    begin = end + 1;
  }
  if (!report.is_object()) {
    return {
        Wrong("engine",
              fmt::format("the output of `nerf-engine doctor` is not JSON (exit {})", exit_code),
              "run it by hand and read its errors")};
  }
  std::vector<DoctorFinding> findings;
  const auto problems = report.find("problems");
  if (problems != report.end() && problems->is_array()) {
    for (const nlohmann::json& problem : *problems) {
      findings.push_back(Wrong("engine", PlainText(TextOf(problem)), "see `nerf-engine doctor`"));
    }
  }
  if (!findings.empty()) return findings;
  std::string detail;
  for (const char* key : {"version", "cpu", "simd", "threads", "cuda"}) {
    const auto value = report.find(key);
    if (value == report.end() || value->is_structured() || value->is_null()) continue;
    detail += fmt::format("{}{} {}", detail.empty() ? "" : ", ", key,
                          value->is_string() ? value->get<std::string>() : value->dump());
  }
  if (exit_code != 0) {
    return {Wrong("engine", fmt::format("`nerf-engine doctor` exits {}", exit_code),
                  "run it by hand and read its errors")};
  }
  return {Good("engine", detail.empty() ? "nerf-engine runs" : PlainText(detail))};
}

// The worker's device and methods, as text.
std::string OfferOf(const v1::Worker& worker) {
  const std::string methods = fmt::format("{}", fmt::join(worker.methods(), ", "));
  return PlainText(
      fmt::format("{} on {} {}", ShortName(worker.name()), worker.device(),
                  methods.empty() ? "does not say which methods it trains" : "trains " + methods));
}

// Whether photographs and films without poses can be sent: they wait where no worker has the
// programs.
DoctorFinding ExamineProgram(const char* program, const char* use,
                             const std::vector<std::string>& versions) {
  for (const std::string& version : versions) {
    if (!version.empty())
      return Good(program, PlainText(fmt::format("{} of a worker, {}", version, use)));
  }
  return Note(program, fmt::format("no worker has it: {} wait", use),
              fmt::format("apt-get install {} where a worker runs, and start it again", program));
}

}  // namespace

absl::StatusOr<std::string> RunForOutput(const std::vector<std::string>& command,
                                         absl::Duration timeout, int* exit_code) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return ErrnoToStatus(errno, "pipe");
  UniqueFd read_end(fds[0]), write_end(fds[1]);
  const std::vector<char*> argv = ArgvOf(command);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  const int error = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return absl::NotFoundError(ErrnoToStatus(error, command[0]).message());
  write_end.Reset();

  std::string output;
  const absl::Time deadline = absl::Now() + timeout;
  bool slow = false;
  while (output.size() < kMaxOutputBytes) {
    const int64_t left = absl::ToInt64Milliseconds(deadline - absl::Now());
    pollfd poll_fd = {read_end.get(), POLLIN, 0};
    if (left <= 0 || poll(&poll_fd, 1, static_cast<int>(left)) == 0) {
      slow = true;
      break;
    }
    char buffer[4096];
    const ssize_t n = read(read_end.get(), buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    output.append(buffer, static_cast<size_t>(n));
  }
  // The program has closed its output. Do not wait for more.
  read_end.Reset();
  int wait_status = 0;
  while (!slow && waitpid(child, &wait_status, WNOHANG) == 0) {
    slow = absl::Now() >= deadline;
    usleep(1000);
  }
  if (slow) {
    kill(child, SIGKILL);
    waitpid(child, &wait_status, 0);
    return absl::DeadlineExceededError(
        fmt::format("{} did not end within {}", command[0], absl::FormatDuration(timeout)));
  }
  if (WIFSIGNALED(wait_status)) {
    return absl::InternalError(
        fmt::format("{} was ended by signal {}", command[0], WTERMSIG(wait_status)));
  }
  *exit_code = WEXITSTATUS(wait_status);
  return output;
}

std::vector<DoctorFinding> ExamineServer(Session& session) {
  std::vector<DoctorFinding> findings;
  const std::string& address = session.flags().server;
  int serving = 0;
  const absl::Status health = AskHealth(session, &serving);
  if (absl::IsUnavailable(health) || absl::IsDeadlineExceeded(health)) {
    return {Wrong("server", fmt::format("nothing answers at {}", address),
                  "start `nerfd`, or name another server with --server HOST:PORT")};
  }
  if (absl::IsUnimplemented(health)) {
    return {
        Wrong("server", fmt::format("the server at {} is not a nerfd", address), "check --server")};
  }
  if (!health.ok()) {
    findings.push_back(Wrong("server",
                             fmt::format("{} answers with an error: {}", address,
                                         PlainText(std::string(health.message()))),
                             "look at the log of nerfd"));
  } else if (serving != 1) {
    findings.push_back(
        Wrong("server", fmt::format("{} is up but not serving", address),
              "it may be starting or stopping; try again, then read the log of nerfd"));
  } else {
    findings.push_back(Good("server", fmt::format("{} answers and serves", address)));
  }

  const auto stub = session.Stub<v1::AdminService>();
  v1::ListWorkersRequest request;
  request.set_page_size(1000);
  const auto workers =
      session.Call(*stub, &v1::AdminService::Stub::ListWorkers, request, kProbeTimeout);
  if (!workers.ok()) {
    findings.push_back(
        Wrong("workers", "cannot be listed: " + PlainText(std::string(workers.status().message())),
              "look at the log of nerfd"));
    return findings;
  }
  int n_alive = 0;
  std::vector<std::string> colmap, ffmpeg;  // versions
  std::vector<DoctorFinding> offers;
  for (const v1::Worker& worker : workers->workers()) {
    const std::string id = ShortName(worker.name());
    if (worker.state() == v1::Worker::LOST) {
      findings.push_back(Note("workers", fmt::format("{} on {} has not reported for a while",
                                                     PlainText(id), PlainText(worker.host()))));
      continue;
    }
    ++n_alive;
    colmap.push_back(worker.colmap_version());
    // A film needs both on one worker.
    ffmpeg.push_back(worker.colmap_version().empty() ? "" : worker.ffmpeg_version());
    offers.push_back(Good("offers", OfferOf(worker)));
    if (worker.version() != NERF_VERSION) {
      findings.push_back(Wrong("versions",
                               fmt::format("worker {} has version {}, nerfctl {}", PlainText(id),
                                           PlainText(worker.version()), NERF_VERSION),
                               "install the same version everywhere"));
    }
  }
  if (n_alive == 0) {
    findings.push_back(Wrong("workers", "no worker is connected: jobs wait, nothing renders",
                             "start nerfd without --no-local-worker, or a nerf-worker"));
  } else {
    findings.push_back(Good("workers", fmt::format("{} connected", n_alive)));
    findings.insert(findings.end(), offers.begin(), offers.end());
    findings.push_back(ExamineProgram("colmap", "photographs without poses", colmap));
    findings.push_back(ExamineProgram("ffmpeg", "films without poses", ffmpeg));
  }
  return findings;
}

std::vector<DoctorFinding> ExamineBinaries(const DoctorOptions& options, bool server_is_local) {
  std::vector<DoctorFinding> findings;
  const std::filesystem::path dir = options.binary_dir;
  for (const char* name : {"nerfd", "nerf-worker", "nerf-engine"}) {
    const std::string path = (dir / name).string();
    if (access(path.c_str(), X_OK) == 0) continue;
    const std::string detail = fmt::format("{} is missing", path);
    findings.push_back(server_is_local
                           ? Wrong("binaries", detail, "install or build it beside nerfctl")
                           : Note("binaries", detail));
  }
  if (findings.empty()) findings.push_back(Good("binaries", "all in " + options.binary_dir));
  const std::string engine = (dir / "nerf-engine").string();
  if (access(engine.c_str(), X_OK) != 0) return findings;
  int exit_code = 0;
  const absl::StatusOr<std::string> output =
      RunForOutput({engine, "doctor", "--json"}, kEngineTimeout, &exit_code);
  if (!output.ok()) {
    findings.push_back(Wrong("engine", PlainText(std::string(output.status().message())),
                             "run `nerf-engine doctor` by hand"));
    return findings;
  }
  for (DoctorFinding& finding : ReadEngineReport(*output, exit_code)) {
    findings.push_back(std::move(finding));
  }
  return findings;
}

std::vector<DoctorFinding> ExamineDataDir(const DoctorOptions& options) {
  std::vector<DoctorFinding> findings;
  const std::string& dir = options.data_dir;
  struct stat dir_stat = {};
  if (dir.empty() || stat(dir.c_str(), &dir_stat) != 0) {
    // The server may use another folder, which it does not report.
    return {Note("data", fmt::format("{} is missing; if nerfd uses another folder, name it "
                                     "with --data-dir",
                                     dir.empty() ? "the data folder" : dir))};
  }
  if (!S_ISDIR(dir_stat.st_mode)) {
    return {Wrong("data", dir + " is not a folder", "move it away, or give nerfd --data-dir")};
  }
  const std::string token = dir + "/worker.token";
  struct stat token_stat = {};
  if (stat(token.c_str(), &token_stat) != 0) {
    findings.push_back(Note("token", token + " is missing; nerfd creates it when it starts"));
  } else if ((token_stat.st_mode & 077) != 0) {
    findings.push_back(Wrong(
        "token",
        fmt::format("{} can be read by others (mode {:04o})", token, token_stat.st_mode & 07777),
        fmt::format("chmod 600 {}", token)));
  } else {
    findings.push_back(Good("token", token + " belongs to its owner alone"));
  }
  struct statvfs space = {};
  if (statvfs(dir.c_str(), &space) != 0) {
    findings.push_back(Wrong("data", dir + " cannot be examined", "check its rights"));
    return findings;
  }
  const double free_bytes =
      static_cast<double>(space.f_bavail) * static_cast<double>(space.f_frsize);
  const double all_bytes =
      static_cast<double>(space.f_blocks) * static_cast<double>(space.f_frsize);
  const std::string detail =
      fmt::format("{}: {} of {} free", dir, FormatBytes(free_bytes), FormatBytes(all_bytes));
  if (free_bytes < kLowSpaceBytes || free_bytes < kLowSpaceFraction * all_bytes) {
    findings.push_back(
        Wrong("data", detail, "free some space, or delete unneeded jobs, scenes and models"));
  } else {
    findings.push_back(Good("data", detail));
  }
  return findings;
}

}  // namespace nerf
