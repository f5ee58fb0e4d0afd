#include <cmath>
#include <cstdio>
#include <memory>

#include "common/counted.h"
#include "common/status_macros.h"
#include "engine/base/method_list/method_descriptions.h"
#include "engine/base/protocol/json.h"
#include "engine/field/files/checkpoint.h"
#include "engine/field/files/tensor_file.h"
#include "engine/field/files/torch_file.h"
#include "engine/methods/mlp/import.h"
#include "engine/program/console/command.h"
#include "engine/program/device/exception_border.h"
#include "fmt/format.h"

namespace nerf {
namespace {

struct ImportFlags {
  std::string file, out;
  std::vector<std::string> settings;
  bool json = false;
};

// What NeRF-Synthetic's scenes share: Blender's frame, a box of +-1.5, cameras at a distance of 4
// with a field of view of 0.69 radians. The pictures of these networks have 400 pixels a side.
void DescribeBlenderScene(TrainState* state) {
  SceneGeometry& geometry = state->geometry;
  geometry.flavor = SceneFlavor::kBlender;
  geometry.box = {{-1.5f, -1.5f, -1.5f}, {1.5f, 1.5f, 1.5f}};
  geometry.step = geometry.box.Diagonal() / 512;
  geometry.near = state->config.near;
  geometry.median_distance = 4;
  geometry.median_height = 2;
  Camera& camera = state->reference_camera;
  camera.width = camera.height = 400;
  camera.fl_x = camera.fl_y = 555.555f;
  camera.cx = camera.cy = 200;
  camera.camera_to_world.m[2][3] = 4;
}

absl::Status Import(const ImportFlags& flags) {
  NERF_ASSIGN_OR_RETURN(const auto tensors, ReadTorchFile(flags.file));
  absl::StatusOr<ImportedMlp> imported = ImportNerfPytorch(tensors);
  if (!imported.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}", flags.file, std::string(imported.status().message())));
  }
  TrainState state;
  state.config = imported->config;
  for (const std::string& setting : flags.settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos) {
      return absl::InvalidArgumentError(
          fmt::format("--set {}: must be key=value", setting.substr(0, 64)));
    }
    NERF_RETURN_IF_ERROR(
        SetConfigField(setting.substr(0, equals), setting.substr(equals + 1), &state.config));
  }
  DescribeBlenderScene(&state);
  state.evaluation_background = Background::kWhite;
  StoreTrainState(state, TrainFileKind::kModel, &imported->model);
  NERF_RETURN_IF_ERROR(WriteTensorFile(imported->model, flags.out));
  if (flags.json) {
    fmt::print("{}", JsonLine(JsonObject{{"event", "done"}, {"model", flags.out}}));
  } else {
    fmt::print("{}: {}\n", flags.out, Counted(imported->model.tensors.size(), "tensor"));
  }
  return absl::OkStatus();
}

}  // namespace

void AddImportCommand(CLI::App* app, CommandBody* chosen) {
  auto flags = std::make_shared<ImportFlags>();
  CLI::App* command =
      app->add_subcommand("import", "Make a model of method mlp from a checkpoint of nerf-pytorch");
  command->add_option("FILE", flags->file, "checkpoint that torch.save wrote")->required();
  command->add_option("--out", flags->out, "model file to write")->required();
  command->add_option("--set", flags->settings, "key=value: a setting of method mlp")
      ->type_name("KEY=VALUE");
  command->add_flag("--json", flags->json, "one JSON object on stdout");
  command->footer("Example:\n  nerf-engine import 200000.tar --out lego.safetensors");
  command->callback([=] {
    *chosen = [flags]() -> int {
      const absl::Status status = Guarded([&] { return Import(*flags); });
      return status.ok() ? kOk : ReportError(status, flags->json);
    };
  });
}

}  // namespace nerf
