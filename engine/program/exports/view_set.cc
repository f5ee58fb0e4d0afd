#include "engine/program/exports/view_set.h"

#include <memory>
#include <vector>

#include "common/counted.h"
#include "common/status_macros.h"
#include "engine/base/config/view_limits.h"
#include "engine/base/export_bytes.h"
#include "engine/export/files/camera_list.h"
#include "engine/export/mesh/surface_points.h"
#include "engine/field/files/zip_file.h"
#include "engine/program/exports/path_export.h"
#include "engine/program/exports/view_files.h"
#include "engine/program/written_views/view_request.h"
#include "engine/program/written_views/view_style.h"
#include "engine/scene/files/npy.h"
#include "engine/scene/pictures/image_io.h"
#include "engine/views/render/renderer.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr float kDepthUnits = 1000;  // of the data set's unit: see depth_unit_scale_factor

// As data sets state them. depths: along rays, training units.
std::vector<float> StatedDepths(const Camera& camera, std::vector<float> depths, float scale) {
  const bool is_along_axis = IsOnPlane(camera.lens);
  for (size_t i = 0; i < depths.size(); ++i) {
    const auto width = static_cast<size_t>(camera.width);
    float share = 1;
    if (is_along_axis) {
      const Ray ray = CameraRay(camera, static_cast<float>(i % width) + 0.5f,
                                static_cast<float>(i / width) + 0.5f);
      share = -Dot(camera.camera_to_world.Column(2), ray.direction);
    }
    depths[i] *= share * kDepthUnits / scale;
  }
  return depths;
}

absl::StatusOr<Camera> ViewCamera(const Camera& camera) {
  NERF_ASSIGN_OR_RETURN(const Camera view, CameraOfSize(camera, 0, 0, /*limited=*/true));
  if (IsListedLens(view.lens)) return view;
  return PinholeIn(view, std::max(view.width, view.height));
}

// The cameras of the views, training frame, and the names of their files.
absl::StatusOr<CamerasToExport> ViewsOf(const ModelFile& model, const ExportRequest& request) {
  NERF_ASSIGN_OR_RETURN(CamerasToExport asked, CamerasOf(model, request, /*keep_keyframes=*/false));
  for (Camera& camera : asked.cameras) {
    NERF_ASSIGN_OR_RETURN(camera, ViewCamera(camera));
  }
  return asked;
}

}  // namespace

absl::StatusOr<double> MaxViewSetBytes(const ModelFile& model, const ExportRequest& request) {
  NERF_ASSIGN_OR_RETURN(const CamerasToExport asked, ViewsOf(model, request));
  double n_bytes = 0;
  for (const Camera& camera : asked.cameras) n_bytes += MaxViewBytes(camera.width, camera.height);
  return n_bytes;
}

absl::StatusOr<ExportedFile> MakeViewSet(const ModelFile& model, const ExportRequest& request,
                                         const std::string& path, ThreadPool* pool,
                                         const std::stop_token& stop,
                                         const ExportProgress& progress) {
  NERF_ASSIGN_OR_RETURN(const CamerasToExport asked, ViewsOf(model, request));
  const std::vector<Camera>& cameras = asked.cameras;
  uint64_t n_depth_bytes = 0;  // not compressed
  for (const Camera& camera : cameras) n_depth_bytes += uint64_t{4} * camera.width * camera.height;
  if (IsArchive(path) && n_depth_bytes > ZipFile::kMaxBytes) {
    return absl::ResourceExhaustedError(
        fmt::format("a .zip holds 4 GB at most, these depths have {:.1f}; take fewer or smaller "
                    "views, or a folder",
                    static_cast<double>(n_depth_bytes) / 1e9));
  }
  NERF_ASSIGN_OR_RETURN(const std::unique_ptr<ViewFiles> files, ViewFiles::Make(path));
  const SceneGeometry& geometry = model.state.geometry;
  ViewStyle style;
  style.crop = request.own_box;
  ExportedFile made;
  std::vector<NamedCamera> views;
  const auto write = [&](const std::string& file, std::string_view bytes) {
    made.byte_size += bytes.size();
    return files->Write(file, bytes);
  };
  for (size_t i = 0; i < cameras.size(); ++i) {
    progress("views", static_cast<double>(i) / static_cast<double>(cameras.size()));
    const Camera& camera = cameras[i];
    const std::string name = asked.names.empty() ? fmt::format("{:04}", i) : asked.names[i];
    ViewRender render(*model.model, geometry.near, camera,
                      OptionsOf(model.state, style, {.rgb = true}, camera));
    if (!render.Advance(pool, nullptr, stop))
      return absl::CancelledError("the export was interrupted");
    const ViewPicture view = Quantized(render.TakeView());
    views.push_back({"images/" + name + ".png", camera, "depths/" + name + ".npy"});
    NERF_ASSIGN_OR_RETURN(const std::string png, EncodePng(ColorsOf(view), stop));
    NERF_RETURN_IF_ERROR(write(views.back().file, png));
    const std::vector<float> depths = StatedDepths(camera, view.depths, geometry.frame.scale);
    NERF_RETURN_IF_ERROR(write(
        views.back().depth,
        NpyOf(static_cast<size_t>(camera.height), static_cast<size_t>(camera.width), depths)));
  }
  const ExportAxes axes(request.axes, /*is_y_up=*/false, geometry);
  NERF_RETURN_IF_ERROR(write("transforms.json", CameraListJson(views, axes)));
  if (stop.stop_requested()) return absl::CancelledError("the export was interrupted");
  NERF_RETURN_IF_ERROR(files->PutInPlace());
  made.n_vertices = views.size();
  made.axes = axes.words();
  made.words = fmt::format("{} with depths, {}x{} pixels", Counted(views.size(), "view"),
                           views.front().camera.width, views.front().camera.height);
  return made;
}

}  // namespace nerf
