#include "engine/commands/viewer_command.h"

#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "common/atomic_file.h"
#include "common/status_macros.h"
#include "engine/commands/command.h"
#include "engine/config/view_style_check.h"
#include "engine/export/viewer_file.h"
#include "engine/files/checkpoint.h"
#include "engine/files/tensor_file.h"
#include "engine/methods/registry.h"
#include "engine/output/view_paths.h"
#include "engine/protocol/json.h"
#include "engine/scene/own_box.h"
#include "engine/training/exception_border.h"
#include "engine/training/loaded_model.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr int kPathPoses = 96;  // that the viewer plays between

absl::Status At(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), fmt::format("{}: {}", path, std::string(status.message())));
}

// A camera of the path, with the lens that the viewer plays it with.
CaptureCamera PathCamera(const Camera& camera) {
  CaptureCamera path{camera.camera_to_world};
  path.right = 0.5f * static_cast<float>(camera.width) / camera.fl_x;
  path.top = 0.5f * static_cast<float>(camera.height) / camera.fl_y;
  path.left = -path.right;
  path.bottom = -path.top;
  return path;
}

absl::StatusOr<ViewerScene> ViewerSceneOf(const LoadedModel& model) {
  const PathScene& found = PathSceneOf(model);
  PathRequest request;
  request.count = kPathPoses;
  NERF_ASSIGN_OR_RETURN(const ViewPath path, CamerasOfPath(model.state, found, request));
  ViewerScene scene;
  scene.center = FocusOf(found.cameras).value_or(found.center);
  scene.up = found.up;
  scene.photographs = CaptureCamerasOf(model.state);
  for (const Camera& camera : path.cameras) scene.path.push_back(PathCamera(camera));
  scene.path_is_closed = path.is_closed;
  return scene;
}

absl::Status WriteViewer(const ViewerFlags& flags, const std::optional<OwnBox>& crop) {
  NERF_ASSIGN_OR_RETURN(const TensorFile file,
                        WithModelHint(ReadTensorFile(flags.model), flags.model));
  NERF_ASSIGN_OR_RETURN(StoredTrainState stored, LoadTrainState(file, flags.model));
  const TrainState state = stored.state;
  if (absl::Status status = CheckViewable(state.config); !status.ok())
    return At(flags.model, status);
  const Method& method = MethodOf(state.config);
  const auto load = [&] { return method.LoadModel(file, state.config, state.geometry); };
  const absl::StatusOr<std::unique_ptr<TrainedModel>> packed = load();
  if (!packed.ok()) return At(flags.model, packed.status());
  // The path is found in small views, whose renderer owns its model.
  NERF_ASSIGN_OR_RETURN(std::unique_ptr<TrainedModel> viewed, load());
  ThreadPool pool(ThreadsFor(flags.threads));
  const std::unique_ptr<RenderDevice> device = NewCpuRenderDevice(&pool);
  const LoadedModel loaded{
      state,
      stored.kind,
      device->Load(std::move(viewed), state.geometry, RenderPrecisionOf(state.config)),
      {},
      0,
      std::nullopt};
  NERF_ASSIGN_OR_RETURN(ViewerScene scene, ViewerSceneOf(loaded));
  if (crop.has_value()) {
    scene.crop = ToTrainingFrame(*crop, state.geometry.frame);
    scene.center = scene.crop->center;
  }
  const std::string content = ViewerFile(state, **packed, scene);
  NERF_RETURN_IF_ERROR(WriteFileAtomically(flags.viewer, content));
  if (flags.json) {
    fmt::print("{}", JsonLine({{"event", "done"},
                               {"viewer", flags.viewer},
                               {"bytes", content.size()},
                               {"photographs", scene.photographs.size()}}));
  } else {
    fmt::print("{}: {:.1f} MB; open it in a browser, also without a network\n", flags.viewer,
               static_cast<double>(content.size()) / 1e6);
  }
  return absl::OkStatus();
}

}  // namespace

int RunViewerExport(const ViewerFlags& flags) {
  std::optional<OwnBox> crop;
  if (!flags.crop.empty()) {
    const absl::StatusOr<OwnBox> box = ParseOwnBox("--crop", flags.crop);
    if (!box.ok()) return ReportError(box.status(), flags.json, true);
    crop = *box;
  }
  const absl::Status status = Guarded([&] { return WriteViewer(flags, crop); });
  return status.ok() ? kOk : ReportError(status, flags.json);
}

}  // namespace nerf
