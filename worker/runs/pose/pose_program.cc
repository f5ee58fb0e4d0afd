#include "worker/runs/pose/pose_program.h"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <variant>

#include "common/error_reason.h"
#include "common/logging.h"
#include "common/process/child_process.h"
#include "common/process/exit_code.h"
#include "common/status_macros.h"
#include "worker/base/call_result.h"
#include "worker/engine/engine_program.h"
#include "worker/files/scene_folder.h"

namespace nerf {
namespace {

constexpr absl::Duration kToolsLimit = absl::Seconds(20);
constexpr std::string_view kTheSearch = "the search for poses";

std::vector<std::string> ProgramsOf(const PoseProgramOptions& options) {
  std::vector<std::string> programs;
  for (const std::string& program : {options.colmap, options.ffmpeg, options.ffprobe}) {
    if (!program.empty()) programs.push_back(program);
  }
  return programs;
}

// The command line without what to pose.
std::vector<std::string> CommandOf(const PoseProgramOptions& options) {
  std::vector<std::string> command = {"pose", "--json"};
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) command.insert(command.end(), {flag, value});
  };
  add("--colmap", options.colmap);
  add("--ffmpeg", options.ffmpeg);
  add("--ffprobe", options.ffprobe);
  return command;
}

// `task`: null without folders.
absl::StatusOr<ChildProcessEnd> RunPoseCommand(const PoseProgramOptions& options,
                                               std::vector<std::string> command,
                                               const PoseSearchTask* task, absl::Duration limit,
                                               const ChildProcess::OnLine& on_line,
                                               const std::stop_token& stop) {
  EngineProgramReach reach{.programs = ProgramsOf(options)};
  if (task != nullptr) {
    reach.read_paths = {task->photos};
    if (!task->into.empty()) reach.read_paths.push_back(task->into);
    reach.work = task->work;
  }
  return RunEngineProgram(options, std::move(command), reach, limit, on_line, stop);
}

// Why a search failed.
absl::Status FailureOfSearch(const ChildProcessEnd& end, const std::optional<absl::Status>& error) {
  absl::Status failure = FailureOfProgram(kTheSearch, end, error);
  // Too little memory: another worker may have more.
  if (!absl::IsResourceExhausted(failure) ||
      ToCallResult(failure).reason == reason::kWorkerExhausted)
    return failure;
  return ProgramCrashed(kTheSearch, std::string(failure.message()));
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
  std::optional<absl::Status> error;
  const auto on_line = [&](std::string_view line) {
    const protocol::PoseLine said = protocol::ParsePoseLine(line);
    if (const auto* found = std::get_if<protocol::PoseTools>(&said)) tools = *found;
    if (const auto* failed = std::get_if<absl::Status>(&said)) error = *failed;
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
  if (!task.into.empty()) command.insert(command.end(), {"--into", task.into});
  if (!task.camera.empty()) command.insert(command.end(), {"--camera", task.camera});
  if (task.mask_below > 0) {
    command.insert(command.end(), {"--mask-below", fmt::format("{}", task.mask_below)});
  }
  std::optional<absl::Status> error;
  const auto on_line = [&](std::string_view line) {
    const protocol::PoseLine said = protocol::ParsePoseLine(line);
    if (const auto* posing = std::get_if<protocol::Posing>(&said)) {
      on_progress(*posing);
    } else if (const auto* failed = std::get_if<absl::Status>(&said)) {
      error = *failed;
    } else if (!line.starts_with('{')) {
      LogInfo("nerf-engine pose says", {{"line", line}});
    }
  };
  NERF_ASSIGN_OR_RETURN(
      const ChildProcessEnd end,
      RunPoseCommand(options, std::move(command), &task, options.time_limit, on_line, stop));
  if (end.ok()) return true;
  // Words of programs, unlike those about the user's own files.
  if (error.has_value() && !absl::IsInvalidArgument(*error))
    error = WithMessage(*error, WithoutPaths(std::string(error->message())));
  const bool exited = end.kind == ChildProcessEnd::Kind::kExited;
  if (exited && end.code == kBadData && !error.has_value()) return false;
  return FailureOfSearch(end, error);
}

}  // namespace nerf
