#include "worker/pose_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "common/child_process.h"
#include "common/error_reason.h"
#include "common/exit_code.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "worker/engine_sandbox.h"

namespace nerf {
namespace {

constexpr absl::Duration kToolsLimit = absl::Seconds(20);

// Of this machine, which no process may ask more of. 0, no limit, where sanitizers reserve more.
uint64_t PhysicalMemoryBytes() {
#ifdef NERF_SANITIZED
  return 0;
#endif
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : 0;
}

std::vector<std::string> ProgramsOf(const PoseProgramOptions& options) {
  std::vector<std::string> programs;
  for (const std::string& program : {options.colmap, options.ffmpeg, options.ffprobe}) {
    if (!program.empty()) programs.push_back(program);
  }
  return programs;
}

// The command line without what to pose.
std::vector<std::string> CommandOf(const PoseProgramOptions& options) {
  std::vector<std::string> command = {options.engine, "pose", "--json"};
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) command.insert(command.end(), {flag, value});
  };
  add("--colmap", options.colmap);
  add("--ffmpeg", options.ffmpeg);
  add("--ffprobe", options.ffprobe);
  if (options.threads > 0) add("--threads", std::to_string(options.threads));
  return command;
}

// `task`: null without folders.
absl::StatusOr<ChildProcessEnd> RunPoseCommand(const PoseProgramOptions& options,
                                               std::vector<std::string> command,
                                               const PoseSearchTask* task, absl::Duration limit,
                                               const ChildProcess::OnLine& on_line,
                                               const std::stop_token& stop) {
  EngineSandboxOptions limits;
  limits.enabled = options.sandboxed;
  limits.programs = ProgramsOf(options);
  limits.read_paths = options.read_paths;
  ChildProcessSpec spec;
  if (task != nullptr) {
    limits.read_paths.push_back(task->photos);
    limits.write_paths.push_back(task->work);
    spec.environment.emplace_back("TMPDIR", task->work);
  }
  NERF_ASSIGN_OR_RETURN(EngineSandbox built, EngineSandbox::Build(limits, options.engine));
  const auto sandbox = std::make_shared<EngineSandbox>(std::move(built));
  spec.arguments = std::move(command);
  spec.time_limit = limit;
  spec.max_memory_bytes = PhysicalMemoryBytes();
  spec.inherits_environment = false;
  for (char* const* variable = sandbox->environment(); *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const size_t equals = text.find('=');
    spec.environment.emplace_back(text.substr(0, equals),
                                  equals == std::string::npos ? "" : text.substr(equals + 1));
  }
  spec.prepare = [sandbox] { return sandbox->Apply(); };
  return RunChildProcess(spec, on_line, nullptr, stop);
}

absl::Status Crashed(std::string_view how) {
  return WithReason(absl::UnavailableError(fmt::format("the search for poses broke down: {}", how)),
                    reason::kEngineCrashed);
}

// Why a search failed.
absl::Status FailureOfSearch(const ChildProcessEnd& end,
                             const std::optional<protocol::Error>& error) {
  switch (end.kind) {
    case ChildProcessEnd::Kind::kStopped:
      return absl::CancelledError("stopped");
    case ChildProcessEnd::Kind::kTimeLimit:
      return absl::DeadlineExceededError("the search for poses ran past its time limit");
    case ChildProcessEnd::Kind::kSignaled:
      return Crashed(fmt::format("killed by signal {}", end.code));
    case ChildProcessEnd::Kind::kExited:
      break;
  }
  if (!error.has_value()) return Crashed(fmt::format("exit code {}", end.code));
  const absl::Status said(error->code, error->message);
  // COLMAP was killed, aborted or had too little memory: another try, or worker, may do better.
  if (absl::IsAborted(said) || absl::IsInternal(said) || absl::IsResourceExhausted(said) ||
      absl::IsCancelled(said) || absl::IsUnavailable(said)) {
    return Crashed(error->message);
  }
  const bool is_named =
      !error->reason.empty() && error->reason != absl::StatusCodeToString(said.code());
  return is_named ? WithReason(said, error->reason) : said;
}

}  // namespace

PoseProgramOptions FindPosePrograms() {
  PoseProgramOptions options;
  options.colmap = FindProgram("colmap").value_or("");
  options.ffmpeg = FindProgram("ffmpeg").value_or("");
  options.ffprobe = FindProgram("ffprobe").value_or("");
  return options;
}

absl::StatusOr<protocol::PoseTools> AskPoseTools(const PoseProgramOptions& options) {
  if (options.colmap.empty()) return absl::UnimplementedError("COLMAP is not installed");
  std::vector<std::string> command = CommandOf(options);
  command.push_back("--tools");
  protocol::PoseTools tools;
  std::optional<protocol::Error> error;
  const auto on_line = [&](std::string_view line) {
    const protocol::PoseLine said = protocol::ParsePoseLine(line);
    if (const auto* found = std::get_if<protocol::PoseTools>(&said)) tools = *found;
    if (const auto* failed = std::get_if<protocol::Error>(&said)) error = *failed;
  };
  NERF_ASSIGN_OR_RETURN(const ChildProcessEnd end,
                        RunPoseCommand(options, command, nullptr, kToolsLimit, on_line, {}));
  if (!end.ok()) return FailureOfSearch(end, error);
  if (tools.colmap.empty()) return absl::InternalError("nerf-engine names no version of COLMAP");
  return tools;
}

absl::StatusOr<bool> SearchPosesInSandbox(
    const PoseProgramOptions& options, const PoseSearchTask& task,
    const std::function<void(const protocol::Posing&)>& on_progress, const std::stop_token& stop) {
  std::vector<std::string> command = CommandOf(options);
  command.insert(command.end(), {task.photos, "--out", task.work + "/posed", "--min-posed",
                                 fmt::format("{}", task.min_posed), "--film-frames",
                                 std::to_string(task.film_frames)});
  std::optional<protocol::Error> error;
  const auto on_line = [&](std::string_view line) {
    const protocol::PoseLine said = protocol::ParsePoseLine(line);
    if (const auto* posing = std::get_if<protocol::Posing>(&said)) {
      on_progress(*posing);
    } else if (const auto* failed = std::get_if<protocol::Error>(&said)) {
      error = *failed;
    } else if (!line.starts_with('{')) {
      LogInfo("nerf-engine pose says", {{"line", line}});
    }
  };
  NERF_ASSIGN_OR_RETURN(
      const ChildProcessEnd end,
      RunPoseCommand(options, std::move(command), &task, options.time_limit, on_line, stop));
  if (end.ok()) return true;
  const bool exited = end.kind == ChildProcessEnd::Kind::kExited;
  if (exited && end.code == kBadData && !error.has_value()) return false;
  return FailureOfSearch(end, error);
}

}  // namespace nerf
