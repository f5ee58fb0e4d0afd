#include "engine/program/exports/viewer_export.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "engine/field/marched_model.h"
#include "engine/program/written_views/view_paths.h"
#include "engine/scene/own_box.h"
#include "engine/views/render/orbit.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr int kPathPoses = 96;     // that the viewer plays between
constexpr int kOrbitCameras = 48;  // that see a baked model where its file stores none
constexpr double kBase64Growth = 4.0 / 3;
// Of zlib, for bytes that it cannot pack, and of the header's words on a baked model.
constexpr double kMaxPackedGrowth = 1.001, kBakedWords = 512;

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

}  // namespace

absl::StatusOr<ViewerExport> ViewerExport::Prepare(const std::string& path, const ModelFile& model,
                                                   const ExportRequest& request, ThreadPool* pool,
                                                   const std::stop_token& stop,
                                                   const ExportProgress& progress) {
  const TrainState& state = model.state;
  if (absl::Status status = CheckViewable(state.config); !status.ok()) {
    return absl::Status(status.code(), fmt::format("{}: {}", path, std::string(status.message())));
  }
  ViewerExport viewer(&model);
  // The path is found in small views, whose renderer owns its model.
  const std::unique_ptr<RenderDevice> device = NewCpuRenderDevice(pool);
  NERF_ASSIGN_OR_RETURN(const LoadedModel viewed, LoadModelFile(path, device.get()));
  NERF_ASSIGN_OR_RETURN(viewer.scene_, ViewerSceneOf(viewed));
  ViewerScene& scene = viewer.scene_;
  if (request.own_box.has_value()) {
    scene.crop = ToTrainingFrame(*request.own_box, state.geometry.frame);
    scene.center = scene.crop->center;
  }
  viewer.html_ = ViewerFile(state, *model.model, scene);
  if (!request.spec.baked()) return viewer;
  progress("views", 0);
  NERF_ASSIGN_OR_RETURN(BakePlan plan,
                        PlanBaking(dynamic_cast<const MarchedModel&>(*model.model), state.geometry,
                                   BakingCameras(state, *model.model), scene.crop,
                                   MinTransmittance(state.config), pool, stop));
  viewer.plan_.emplace(std::move(plan));
  return viewer;
}

ExportSize ViewerExport::Size() const {
  if (!plan_.has_value()) return {static_cast<double>(html_.size())};
  return BakedSize(html_.size(), ViewerModelBytes(*model_->model), *plan_);
}

std::string ViewerExport::PlanWords() const {
  if (!plan_.has_value()) return "";
  return fmt::format("baking {} cells with {} nodes a side: ", plan_->n_cells,
                     plan_->nodes_per_cell);
}

absl::StatusOr<ExportedFile> ViewerExport::Make(ThreadPool* pool, const std::stop_token& stop,
                                                const ExportProgress& progress) const {
  ExportedFile file;
  const auto& [state, kind, model, lenses] = *model_;
  std::string origin;
  if (state.geometry.frame.origin != Vec3d{0, 0, 0})
    origin = "; positions in addresses are relative to " + OriginText(state.geometry.frame.origin);
  if (!plan_.has_value()) {
    file.bytes = html_;
    file.words = "the model" + origin;
    return file;
  }
  NERF_ASSIGN_OR_RETURN(const BakedModel baked, BakeModel(dynamic_cast<const MarchedModel&>(*model),
                                                          *plan_, pool, stop, progress));
  file.bytes = ViewerFile(state, *model, scene_, &baked);
  file.words = "the model and a baked one";
  if (file.bytes.size() > kMaxBothBytes) {
    file.bytes = ViewerFile(state, *model, scene_, &baked, /*has_exact=*/false);
    file.words = "a baked model alone: both have more than 25 MB";
  }
  return file;
}

}  // namespace nerf
