#include "worker/engine/engine_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "common/error_reason.h"
#include "common/status_macros.h"
#include "worker/base/call_result.h"
#include "worker/engine/engine_sandbox.h"

namespace nerf {
namespace {

// Of this machine, which no process may ask more of. 0, no limit, where sanitizers reserve more.
uint64_t PhysicalMemoryBytes() {
#ifdef NERF_SANITIZED
  return 0;
#endif
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : 0;
}

}  // namespace

absl::StatusOr<ChildProcessEnd> RunEngineProgram(const EngineProgramOptions& options,
                                                 std::vector<std::string> arguments,
                                                 const EngineProgramReach& reach,
                                                 absl::Duration limit,
                                                 const ChildProcess::OnLine& on_line,
                                                 const std::stop_token& stop) {
  EngineSandboxOptions limits;
  limits.enabled = options.sandboxed;
  limits.programs = reach.programs;
  limits.read_paths = options.read_paths;
  limits.read_paths.insert(limits.read_paths.end(), reach.read_paths.begin(),
                           reach.read_paths.end());
  ChildProcessSpec spec;
  if (!reach.work.empty()) {
    limits.write_paths.push_back(reach.work);
    spec.environment.emplace_back("TMPDIR", reach.work);
  }
  NERF_ASSIGN_OR_RETURN(EngineSandbox built, EngineSandbox::Build(limits, options.engine));
  const auto sandbox = std::make_shared<EngineSandbox>(std::move(built));
  spec.arguments = {options.engine};
  spec.arguments.insert(spec.arguments.end(), arguments.begin(), arguments.end());
  if (options.threads > 0) {
    spec.arguments.insert(spec.arguments.end(), {"--threads", std::to_string(options.threads)});
  }
  spec.time_limit = limit;
  spec.max_memory_bytes =
      options.max_data_bytes > 0 ? options.max_data_bytes : PhysicalMemoryBytes();
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

absl::Status ProgramCrashed(std::string_view what, std::string_view how) {
  return WithReason(absl::UnavailableError(fmt::format("{} broke down: {}", what, how)),
                    reason::kEngineCrashed);
}

absl::Status FailureOfProgram(std::string_view what, const ChildProcessEnd& end,
                              const std::optional<absl::Status>& error) {
  switch (end.kind) {
    case ChildProcessEnd::Kind::kStopped:
      return absl::CancelledError("stopped");
    case ChildProcessEnd::Kind::kTimeLimit:
      return absl::DeadlineExceededError(fmt::format("{} ran past its time limit", what));
    case ChildProcessEnd::Kind::kSignaled:
      return ProgramCrashed(what, fmt::format("killed by signal {}", end.code));
    case ChildProcessEnd::Kind::kExited:
      break;
  }
  if (!error.has_value()) return ProgramCrashed(what, fmt::format("exit code {}", end.code));
  const absl::Status said(error->code(), error->message());
  const std::optional<ErrorReason> why = GetReason(*error);
  const std::string reason = why.has_value() ? why->reason : "";
  if (reason == reason::kStoreReadOnly) {
    return AsOwnError(absl::ResourceExhaustedError(said.message()));
  }
  if (absl::IsInternal(said) || absl::IsCancelled(said) || absl::IsAborted(said) ||
      absl::IsUnavailable(said)) {
    return ProgramCrashed(what, std::string(said.message()));
  }
  const bool is_named = !reason.empty() && reason != absl::StatusCodeToString(said.code());
  return is_named ? WithReason(said, reason) : said;
}

}  // namespace nerf
