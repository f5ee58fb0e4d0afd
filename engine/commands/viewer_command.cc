#include "engine/commands/viewer_command.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/atomic_file.h"
#include "common/status_macros.h"
#include "engine/commands/command.h"
#include "engine/commands/export_console.h"
#include "engine/commands/export_files.h"
#include "engine/commands/export_size.h"
#include "engine/commands/signal_watcher.h"
#include "engine/config/view_style_check.h"
#include "engine/export/baked_model.h"
#include "engine/export/viewer_file.h"
#include "engine/field/marched_model.h"
#include "engine/files/checkpoint.h"
#include "engine/files/tensor_file.h"
#include "engine/methods/registry.h"
#include "engine/output/view_paths.h"
#include "engine/protocol/json.h"
#include "engine/render/orbit.h"
#include "engine/scene/own_box.h"
#include "engine/training/exception_border.h"
#include "engine/training/loaded_model.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr int kPathPoses = 96;     // that the viewer plays between
constexpr int kOrbitCameras = 48;  // that see a baked model where its file stores none
constexpr double kBase64Growth = 4.0 / 3;
// Of zlib, for bytes that it cannot pack, and of the header's words on a baked model.
constexpr double kMaxPackedGrowth = 1.001, kBakedWords = 512;

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

// The photographs' cameras, or some around the scene where the file stores none.
std::vector<Camera> BakingCameras(const TrainState& state, const TrainedModel& model) {
  std::vector<Camera> cameras = PhotographsOf(state);
  if (!cameras.empty()) return cameras;
  return OrbitCameras(state.geometry, model.OccupiedBox().Center(), state.reference_camera,
                      kOrbitCameras);
}

// A viewer file's content and, for people, what is in it.
struct ViewerContent {
  std::string html, words;
};

// What a viewer file is made of.
struct ViewerModel {
  const TrainState& state;
  const TrainedModel& model;
  const ViewerScene& scene;
};

// How large a file with a baked model gets: one with both models, or the baked one by itself.
// n_exact_bytes: of the file without it; n_model_bytes: of the model in that.
ExportSize BakedSize(size_t n_exact_bytes, size_t n_model_bytes, const BakePlan& plan) {
  const double packed =
      kMaxPackedGrowth * static_cast<double>(plan.n_bytes) * kBase64Growth + kBakedWords;
  const double both = static_cast<double>(n_exact_bytes) + packed;
  const double alone = both - static_cast<double>(n_model_bytes);
  constexpr auto kMaxBoth = static_cast<double>(kMaxBothBytes);
  return {both <= kMaxBoth ? both : std::max(kMaxBoth, alone), true};
}

// Tells the size before the work, after which *content stays as it is in a dry run.
absl::Status MakeBaked(const ViewerFlags& flags, const ViewerModel& viewer, ThreadPool* pool,
                       const std::stop_token& stop, ViewerContent* content) {
  const auto& [state, model, scene] = viewer;
  const auto& marched = dynamic_cast<const MarchedModel&>(model);
  ExportConsole console(flags.json);
  console.Show("views", 0);
  NERF_ASSIGN_OR_RETURN(const BakePlan plan,
                        PlanBaking(marched, state.geometry, BakingCameras(state, model), scene.crop,
                                   MinTransmittance(state.config), pool, stop));
  console.Tell(
      fmt::format("baking {} cells with {} nodes a side: ", plan.n_cells, plan.nodes_per_cell),
      BakedSize(content->html.size(), ViewerModelBytes(model), plan));
  if (flags.dry_run) return absl::OkStatus();
  const auto show = [&](std::string_view step, double share) { console.Show(step, share); };
  NERF_ASSIGN_OR_RETURN(const BakedModel baked, BakeModel(marched, plan, pool, stop, show));
  *content = {ViewerFile(state, model, scene, &baked), "the model and a baked one"};
  if (content->html.size() > kMaxBothBytes) {
    *content = {ViewerFile(state, model, scene, &baked, /*has_exact=*/false),
                "a baked model alone: both have more than 25 MB"};
  }
  return absl::OkStatus();
}

absl::Status WriteViewer(const ViewerFlags& flags, const std::optional<OwnBox>& crop,
                         const std::stop_token& stop) {
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
  ViewerContent content = {ViewerFile(state, **packed, scene), "the model"};
  if (flags.baked) {
    NERF_RETURN_IF_ERROR(MakeBaked(flags, {state, **packed, scene}, &pool, stop, &content));
  } else if (flags.dry_run) {
    ExportConsole(flags.json).Tell("", {static_cast<double>(content.html.size())});
  }
  if (flags.dry_run) return absl::OkStatus();
  if (stop.stop_requested()) return absl::CancelledError("the export was interrupted");
  NERF_RETURN_IF_ERROR(WriteFileAtomically(flags.viewer, content.html));
  if (flags.json) {
    fmt::print("{}", JsonLine({{"event", "done"},
                               {"viewer", flags.viewer},
                               {"bytes", content.html.size()},
                               {"photographs", scene.photographs.size()},
                               {"words", content.words}}));
  } else {
    fmt::print("{}: {}, {:.1f} MB; open it in a browser, also without a network\n", flags.viewer,
               content.words, static_cast<double>(content.html.size()) / 1e6);
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
  SignalWatcher signals;
  const absl::Status status = Guarded([&] { return WriteViewer(flags, crop, signals.token()); });
  if (status.ok()) return kOk;
  const int code = ReportError(status, flags.json);
  return signals.exit_code() != 0 ? signals.exit_code() : code;
}

}  // namespace nerf
