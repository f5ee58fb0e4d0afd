#include <cstdio>
#include <memory>

#include "common/counted.h"
#include "common/status_macros.h"
#include "engine/base/protocol/json.h"
#include "engine/field/files/checkpoint.h"
#include "engine/field/files/tensor_file.h"
#include "engine/program/console/command.h"
#include "engine/program/device/exception_border.h"
#include "engine/program/session/loaded_model.h"
#include "fmt/format.h"

namespace nerf {
namespace {

struct InspectFlags {
  std::string file;
  bool json = false;
};

// Counts below a million in full, others in millions.
std::string CountText(int64_t n) {
  constexpr int64_t kMillion = 1'000'000;
  return n < kMillion ? fmt::format("{}", n)
                      : fmt::format("{:.1f} M", static_cast<double>(n) / kMillion);
}

void PrintTable(const std::string& path, const TensorFile& file, const StoredTrainState& stored) {
  const TrainState& state = stored.state;
  const TrainConfig& config = state.config;
  fmt::print("{}: {}, method {}, step {}\n", path,
             stored.kind == TrainFileKind::kModel ? "model" : "checkpoint", config.method,
             state.step);
  fmt::print("budget {} {}, seed {}, {} samples, {} rays\n", config.budget.amount,
             BudgetKindName(config.budget.kind), config.seed, CountText(state.n_trained),
             CountText(state.n_rays));
  fmt::print("{} scene, {} training and {}, {} background, {}\n",
             SceneFlavorName(state.geometry.flavor), state.n_train_views,
             Counted(state.n_test_views, "test view"), BackgroundName(state.evaluation_background),
             Counted(state.geometry.n_levels, "grid level"));
  if (const Vec3d& origin = state.geometry.frame.origin; origin != Vec3d{0, 0, 0})
    fmt::print("about the origin {}\n", OriginText(origin));
  if (!state.made_from.empty()) fmt::print("started from {}\n", state.made_from);
  uint64_t bytes = 0;
  for (const auto& [name, tensor] : file.tensors) {
    fmt::print("  {:<28} {:<5} [{}]\n", name, DTypeName(tensor.dtype),
               fmt::join(tensor.shape, ", "));
    bytes += tensor.bytes.size();
  }
  fmt::print("{}, {:.1f} MiB, digests match\n", Counted(file.tensors.size(), "tensor"),
             static_cast<double>(bytes) / (1 << 20));
}

absl::Status Inspect(const InspectFlags& flags) {
  NERF_ASSIGN_OR_RETURN(TensorFile file, WithModelHint(ReadTensorFile(flags.file), flags.file));
  NERF_ASSIGN_OR_RETURN(StoredTrainState stored, LoadTrainState(file, flags.file));
  if (!flags.json) {
    PrintTable(flags.file, file, stored);
    return absl::OkStatus();
  }
  JsonObject line;
  line["event"] = "done";
  line["kind"] = stored.kind == TrainFileKind::kModel ? "model" : "checkpoint";
  line["method"] = stored.state.config.method;
  line["step"] = stored.state.step;
  line["samples"] = stored.state.n_trained;
  line["metadata"] = file.metadata;
  JsonObject& tensors = line["tensors"] = JsonObject::array();
  for (const auto& [name, tensor] : file.tensors) {
    tensors.push_back(
        {{"name", name}, {"dtype", DTypeName(tensor.dtype)}, {"shape", tensor.shape}});
  }
  fmt::print("{}", JsonLine(line));
  return absl::OkStatus();
}

}  // namespace

void AddInspectCommand(CLI::App* app, CommandBody* chosen) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* command = app->add_subcommand("inspect", "Show what a model or checkpoint holds");
  command->add_option("FILE", flags->file, "model or checkpoint file")->required();
  command->add_flag("--json", flags->json, "one JSON object on stdout");
  command->footer("Example:\n  nerf-engine inspect run/model.safetensors");
  command->callback([=] {
    *chosen = [flags]() -> int {
      const absl::Status status = Guarded([&] { return Inspect(*flags); });
      return status.ok() ? kOk : ReportError(status, flags->json);
    };
  });
}

}  // namespace nerf
