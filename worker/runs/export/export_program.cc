#include "worker/runs/export/export_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_replace.h"
#include "common/error_reason.h"
#include "common/files/atomic_file.h"
#include "common/logging.h"
#include "common/messages/camera_path_text.h"
#include "common/status_macros.h"
#include "engine/base/messages/export_options.h"
#include "worker/base/call_result.h"

namespace nerf {
namespace {

constexpr std::string_view kTheExport = "the export";

// cameras: file of product.path, if there is one.
std::vector<std::string> ArgumentsOf(const std::string& model, const v1::ExportSpec& product,
                                     const std::string& out, const std::string& cameras) {
  const bool is_views = product.format() == v1::ExportSpec::VIEWS;
  std::vector<std::string> arguments = {"export", model, "--json", "--out",
                                        out + (is_views ? "/views.zip" : "/")};
  const std::vector<std::string> asked = ExportArguments(product, cameras);
  arguments.insert(arguments.end(), asked.begin(), asked.end());
  return arguments;
}

// WORKER_EXHAUSTED where the file does not fit on the disk of `out`. Most are far smaller than
// their bound, so of that a little has to fit.
absl::Status CheckRoom(const std::string& out, const protocol::ExportBytes& size) {
  constexpr double kLittle = 1 << 20;
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(out, error);
  const double bytes = size.is_bound ? std::min(size.bytes, kLittle) : size.bytes;
  if (error || bytes <= static_cast<double>(space.available)) return absl::OkStatus();
  return AsOwnError(absl::ResourceExhaustedError(
      fmt::format("the file has {} {:.1f} MB, and {:.1f} MB of the disk are free",
                  size.is_bound ? "at most" : "about", size.bytes / 1e6,
                  static_cast<double>(space.available) / 1e6)));
}

// Without paths of this machine, which mean nothing to whoever asked.
absl::Status LeavePathsOut(const std::string& model, const std::string& out,
                           const absl::Status& error) {
  return WithMessage(error, absl::StrReplaceAll(error.message(), {{model + ": ", ""},
                                                                  {model, "the model"},
                                                                  {out + ".cameras.json", "path"},
                                                                  {out + "/", ""},
                                                                  {out, "."}}));
}

}  // namespace

absl::StatusOr<protocol::ExportDone> ExportInSandbox(
    const EngineProgramOptions& options, const std::string& model, const v1::ExportSpec& product,
    const std::string& out, const std::function<void(const v1::ExportProgress&)>& on_progress,
    const std::stop_token& stop) {
  std::optional<absl::Status> error;
  std::optional<protocol::ExportDone> done;
  v1::ExportProgress progress;
  absl::Status room;
  std::stop_source no_room;
  const std::stop_callback stopped(stop, [&] { no_room.request_stop(); });
  const auto on_line = [&](std::string_view line) {
    const protocol::ExportLine said = protocol::ParseExportLine(line);
    if (const auto* exporting = std::get_if<protocol::Exporting>(&said)) {
      progress.set_step(exporting->step);
      progress.set_share(exporting->share);
      on_progress(progress);
    } else if (const auto* size = std::get_if<protocol::ExportBytes>(&said)) {
      if (size->is_bound) {
        progress.set_max_bytes(size->bytes);
      } else {
        progress.set_expected_bytes(size->bytes);
      }
      room = CheckRoom(out, *size);
      if (!room.ok()) no_room.request_stop();
    } else if (const auto* failed = std::get_if<absl::Status>(&said)) {
      error = *failed;
    } else if (const auto* made = std::get_if<protocol::ExportDone>(&said)) {
      done = *made;
    } else if (!line.starts_with('{')) {
      LogInfo("nerf-engine export says", {{"line", line}});
    }
  };
  EngineProgramReach reach{.read_paths = {model}, .work = out};
  const std::string cameras = out + ".cameras.json";
  if (product.has_path()) {
    const absl::Status written = WriteFileAtomically(cameras, CameraPathText(product.path()));
    if (!written.ok()) return AsOwnError(written);
    reach.read_paths.push_back(cameras);
  }
  NERF_ASSIGN_OR_RETURN(const ChildProcessEnd end,
                        RunEngineProgram(options, ArgumentsOf(model, product, out, cameras), reach,
                                         options.time_limit, on_line, no_room.get_token()));
  if (end.ok() && done.has_value()) return *std::move(done);
  if (!room.ok()) return room;
  if (error.has_value()) error = LeavePathsOut(model, out, *error);
  return FailureOfProgram(kTheExport, end, error);
}

}  // namespace nerf
