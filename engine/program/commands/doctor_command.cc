#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/time/time.h"
#include "common/counted.h"
#include "common/files/places.h"
#include "common/process/child_process.h"
#include "common/process/control_groups.h"
#include "common/process/sandbox_support.h"
#include "common/status_macros.h"
#include "engine/base/parallel_for.h"
#include "engine/base/protocol/json.h"
#include "engine/field/kernels/cuda/device.h"
#include "engine/field/kernels/simd_path.h"
#include "engine/field/parameters/memory_estimate.h"
#include "engine/methods/registry.h"
#include "engine/program/console/command.h"
#include "engine/program/console/signal_watcher.h"
#include "engine/program/device/device.h"
#include "engine/program/device/exception_border.h"
#include "engine/program/device/machine.h"
#include "engine/program/session/choice_table.h"
#include "engine/program/session/device_choices.h"
#include "engine/program/session/training_session.h"
#include "engine/scene/posing/photographs/colmap_tool.h"
#include "engine/scene/read/source.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace nerf {
namespace {

// With less, even a small scene swaps.
constexpr uint64_t kLittleMemoryBytes = uint64_t{1} << 30;

// One line per CUDA device, or why there is none.
struct CudaReport {
  std::vector<std::string> devices;
  std::string problem;
};
CudaReport ReportCuda() {
  CudaReport report;
  report.problem = kernels::cuda::WhyUnavailable();
  if (!report.problem.empty()) return report;
  for (int index = 0; index < kernels::cuda::DeviceCount(); ++index) {
    const kernels::cuda::DeviceDescription device = kernels::cuda::DescribeDevice(index);
    report.devices.push_back(fmt::format(
        "{}, capability {}.{}, {} of {} MiB free", device.name, device.compute_capability / 10,
        device.compute_capability % 10, device.free_bytes >> 20, device.total_bytes >> 20));
  }
  return report;
}

// The program's version, or null if it is missing.
JsonObject ProgramVersion(const absl::StatusOr<ColmapTool>& tool) {
  return tool.ok() ? JsonObject(tool->version) : JsonObject(nullptr);
}

// Names of the methods that this installation can train, and of those that need LibTorch.
struct MethodReport {
  std::vector<std::string> installed, missing;
};
MethodReport ReportMethods() {
  MethodReport report;
  for (const Method* method : Methods()) {
    auto& names = method->CheckInstalled().ok() ? report.installed : report.missing;
    names.emplace_back(method->description().name());
  }
  return report;
}

// Whether engines start in the sandbox of workers, on the first GPU if there is one.
struct SandboxReport {
  bool works = false;
  std::string text;
};
SandboxReport ReportSandbox(const std::string& device) {
  const std::string worker = ProgramBesideThis("nerf-worker");
  std::error_code error;
  if (!std::filesystem::exists(worker, error)) {
    return {true, "not tried, since nerf-worker is not beside this program"};
  }
  ChildProcessSpec spec;
  spec.arguments = {worker, "--try-engine", "--device", device, "--log-level", "off"};
  spec.time_limit = absl::Minutes(3);
  SandboxReport report;
  const auto end = RunChildProcess(
      spec, [&](std::string_view line) { report.text = line; }, [] {}, {});
  report.works = end.ok() && end->ok();
  if (report.text.empty()) report.text = "nerf-worker --try-engine said nothing";
  return report;
}

int RunDoctor(bool json) {
  const CudaReport cuda = ReportCuda();
  const int n_threads = UsableCores();
  const std::optional<uint64_t> memory = AvailableMemoryBytes();
  const MethodReport methods = ReportMethods();
  std::vector<std::string> problems;
  if (memory.has_value() && *memory < kLittleMemoryBytes) {
    problems.push_back(fmt::format("only {} MiB of memory are available", *memory >> 20));
  }
  const SandboxReport sandbox = ReportSandbox(cuda.problem.empty() ? "cuda:0" : "cpu");
  if (!sandbox.works) problems.push_back(sandbox.text);
  if (json) {
    JsonObject line;
    line["event"] = "done";
    line["version"] = NERF_VERSION;
    line["devices"] = JsonObject::array({"cpu"});
    for (size_t i = 0; i < cuda.devices.size(); ++i)
      line["devices"].push_back(fmt::format("cuda:{}", i));
    line["cpu"] = CpuModel();
    line["simd"] = kernels::cpu::SimdPath();
    line["simd_paths"] = kernels::cpu::SimdPaths();
    line["threads"] = n_threads;
    line["memory_available_bytes"] = memory.has_value() ? JsonObject(*memory) : JsonObject(nullptr);
    line["cuda"] =
        cuda.problem.empty() ? fmt::format("{}", fmt::join(cuda.devices, "; ")) : cuda.problem;
    line["methods"] = methods.installed;
    line["colmap"] = ProgramVersion(FindColmap("colmap"));
    line["ffmpeg"] = FindProgram("ffmpeg").ok();
    line["sandbox"] = DescribeSandboxSupport();
    line["sandbox_trial"] = sandbox.text;
    line["problems"] = problems;
    fmt::print("{}", JsonLine(line));
    return kOk;
  }
  fmt::print("nerf-engine {}\n", NERF_VERSION);
  fmt::print("cpu       {}, {}, {} kernels\n", CpuModel(), Counted(n_threads, "thread"),
             kernels::cpu::SimdPath());
  fmt::print("simd      {}; NERF_SIMD=NAME takes another\n",
             fmt::join(kernels::cpu::SimdPaths(), ", "));
  fmt::print("memory    {}\n",
             memory.has_value() ? fmt::format("{} MiB available", *memory >> 20) : "unknown");
  for (const std::string& device : cuda.devices) fmt::print("cuda      {}\n", device);
  if (!cuda.problem.empty()) fmt::print("cuda      {}; the CPU engine is used\n", cuda.problem);
  fmt::print("methods   {}\n", fmt::join(methods.installed, ", "));
  if (!methods.missing.empty()) {
    fmt::print("optional  {}: not built, need NERF_ENABLE_TORCH\n",
               fmt::join(methods.missing, ", "));
  }
  const JsonObject colmap = ProgramVersion(FindColmap("colmap"));
  fmt::print("colmap    {}\n", colmap.is_null()
                                   ? "not installed: apt-get install colmap, for `pose`"
                                   : colmap.get<std::string>());
  fmt::print("ffmpeg    {}\n", FindProgram("ffmpeg").ok()
                                   ? "installed"
                                   : "not installed: apt-get install ffmpeg, for films");
  fmt::print("sandbox   {}; for engines that workers start\n", DescribeSandboxSupport());
  if (sandbox.works) fmt::print("sandbox   {}\n", sandbox.text);
  for (const std::string& problem : problems) fmt::print("problem   {}\n", problem);
  if (problems.empty()) fmt::print("no problems found\n");
  return kOk;
}

struct DoctorFlags {
  bool json = false, choices = false;
  std::optional<std::string> dataset;  // of choices
};

// What a training of the data set would choose; without one also for the known devices and those of
// this machine.
absl::Status ShowChoices(const DoctorFlags& flags, const std::stop_token& stop) {
  ThreadPool pool(ThreadsFor(0));
  std::unique_ptr<TrainingSession> session;
  if (flags.dataset.has_value()) {
    TrainRequest request;
    request.dataset = SourceAt(*flags.dataset).Dataset();
    request.follow_links = true;
    Problems problems;
    NERF_ASSIGN_OR_RETURN(session, OpenTrainingSession(request, &pool, &problems, stop));
    for (const std::string& warning : session->scene.warnings)
      fmt::print(stderr, "warning: {}\n", warning);
  }
  if (flags.json) {
    JsonObject line = {{"event", "done"}};
    line.update(ChoiceReport(session.get()));
    fmt::print("{}", JsonLine(line));
    return absl::OkStatus();
  }
  fmt::print("{}", ChoiceTable(session.get()));
  if (session != nullptr) return absl::OkStatus();
  std::vector<NamedDevice> here;
  const int n_devices = kernels::cuda::IsAvailable() ? kernels::cuda::DeviceCount() : 0;
  for (int index = 0; index < n_devices; ++index) {
    const std::string name = fmt::format("cuda:{}", index);
    here.push_back({name, FactsOf(name)});
  }
  fmt::print("\n{}", DeviceChoiceTable(here));
  return absl::OkStatus();
}

int RunChoices(const DoctorFlags& flags) {
  SignalWatcher signals;
  const absl::Status status = Guarded([&] { return ShowChoices(flags, signals.token()); });
  if (status.ok()) return kOk;
  const int code = ReportError(status, flags.json);
  const bool is_about_data = absl::IsInvalidArgument(status) || absl::IsNotFound(status);
  if (is_about_data && flags.dataset.has_value()) SuggestPosing(SourceAt(*flags.dataset));
  return signals.exit_code() != 0 ? signals.exit_code() : code;
}

}  // namespace

void AddDoctorCommand(CLI::App* app, CommandBody* chosen) {
  auto flags = std::make_shared<DoctorFlags>();
  CLI::App* command = app->add_subcommand("doctor", "Show devices, instruction set and problems");
  command->add_flag("--json", flags->json, "one JSON object on stdout");
  CLI::Option* const choices = command->add_flag(
      "--choices", flags->choices, "what is chosen for which scenes and devices, and why");
  command->add_option("DIR", flags->dataset, "with --choices: what is chosen for this data set")
      ->needs(choices);
  command->footer(
      "Examples:\n  nerf-engine doctor\n  nerf-engine doctor --choices\n"
      "  nerf-engine doctor --choices examples/mic");
  command->callback([=] {
    *chosen = [flags] { return flags->choices ? RunChoices(*flags) : RunDoctor(flags->json); };
  });
}

}  // namespace nerf
