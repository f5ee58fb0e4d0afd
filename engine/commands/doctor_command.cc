#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/time/time.h"
#include "common/child_process.h"
#include "common/control_groups.h"
#include "common/counted.h"
#include "common/places.h"
#include "common/sandbox_support.h"
#include "engine/commands/command.h"
#include "engine/kernels/cuda/device.h"
#include "engine/kernels/simd_path.h"
#include "engine/methods/registry.h"
#include "engine/parameters/memory_estimate.h"
#include "engine/pose/colmap_tool.h"
#include "engine/protocol/json.h"
#include "engine/training/device.h"
#include "engine/training/device_choices.h"
#include "engine/training/machine.h"
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

// The known devices and those of this machine.
int RunChoices() {
  std::vector<NamedDevice> here;
  const int n_devices = kernels::cuda::IsAvailable() ? kernels::cuda::DeviceCount() : 0;
  for (int index = 0; index < n_devices; ++index) {
    const std::string name = fmt::format("cuda:{}", index);
    here.push_back({name, FactsOf(name)});
  }
  fmt::print("{}", DeviceChoiceTable(here));
  return kOk;
}

}  // namespace

void AddDoctorCommand(CLI::App* app, CommandBody* chosen) {
  auto json = std::make_shared<bool>(false), choices = std::make_shared<bool>(false);
  CLI::App* command = app->add_subcommand("doctor", "Show devices, instruction set and problems");
  CLI::Option* const as_json = command->add_flag("--json", *json, "one JSON object on stdout");
  command->add_flag("--choices", *choices, "the settings chosen on several devices, as a table")
      ->excludes(as_json);
  command->footer("Examples:\n  nerf-engine doctor\n  nerf-engine doctor --choices");
  command->callback(
      [=] { *chosen = [json, choices] { return *choices ? RunChoices() : RunDoctor(*json); }; });
}

}  // namespace nerf
