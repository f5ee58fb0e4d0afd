#include <memory>
#include <string>
#include <vector>

#include "common/counted.h"
#include "common/status_macros.h"
#include "engine/base/protocol/json.h"
#include "engine/field/files/tensor_file.h"
#include "engine/program/console/command.h"
#include "engine/program/device/exception_border.h"
#include "engine/program/session/merge_models.h"
#include "fmt/format.h"

namespace nerf {
namespace {

struct MergeFlags {
  std::vector<std::string> files;
  std::string out;
  bool json = false;
};

absl::Status Merge(const MergeFlags& flags) {
  NERF_ASSIGN_OR_RETURN(const TensorFile merged, MergeModels(flags.files));
  NERF_RETURN_IF_ERROR(WriteTensorFile(merged, flags.out));
  if (flags.json) {
    fmt::print("{}", JsonLine(JsonObject{{"event", "done"}, {"model", flags.out}}));
  } else {
    fmt::print("{}: {} of {}\n", flags.out, Counted(merged.tensors.size(), "tensor"),
               Counted(flags.files.size(), "model"));
  }
  return absl::OkStatus();
}

}  // namespace

void AddMergeCommand(CLI::App* app, CommandBody* chosen) {
  auto flags = std::make_shared<MergeFlags>();
  CLI::App* command = app->add_subcommand(
      "merge", "Make one model of tiles that were trained apart (method ngp-tiles, setting tile)");
  command->add_option("TILE_MODEL", flags->files, "model files, one of each tile")->required();
  command->add_option("--out", flags->out, "model file to write")->required();
  command->add_flag("--json", flags->json, "one JSON object on stdout");
  command->footer(
      "Example:\n"
      "  nerf-engine merge --out run/model.safetensors run0/model.safetensors "
      "run1/model.safetensors");
  command->callback([=] {
    *chosen = [flags]() -> int {
      const absl::Status status = Guarded([&] { return Merge(*flags); });
      return status.ok() ? kOk : ReportError(status, flags->json);
    };
  });
}

}  // namespace nerf
