#include "engine/program/exports/export_files.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "common/counted.h"
#include "common/status_macros.h"
#include "engine/base/messages/export_options.h"
#include "engine/export/files/camera_list.h"
#include "engine/export/files/glb_file.h"
#include "engine/export/files/nvdb_file.h"
#include "engine/export/files/ply_file.h"
#include "engine/export/files/vdb_file.h"
#include "engine/export/files/volume.h"
#include "engine/export/mesh/sample_grid.h"
#include "engine/export/mesh/surface_points.h"
#include "engine/field/marched_model.h"
#include "engine/program/exports/path_export.h"
#include "engine/program/exports/splat_export.h"
#include "engine/scene/own_box.h"
#include "engine/views/render/orbit.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr int kOrbitViews = 24;  // of a model whose file stores no cameras

std::string LeftOut(const DroppedParts& dropped) {
  const int n = dropped.n_parts - dropped.n_kept;
  if (n == 0) return "";
  return fmt::format("; left out {} of {} that float or that no two photographs show",
                     Counted(n, "part"), Counted(dropped.n_triangles, "triangle"));
}

// `noun` is made from the model's density.
absl::StatusOr<const MarchedModel*> MarchedModelOf(const ModelFile& model, std::string_view noun) {
  const auto* const marched = dynamic_cast<const MarchedModel*>(model.model.get());
  if (marched != nullptr) return marched;
  return absl::InvalidArgumentError(
      fmt::format("a {} needs a density on an occupancy grid, which this model of method {} "
                  "does not have; --format points and splats are made from its views",
                  noun, model.state.config.method));
}

absl::StatusOr<ExportedFile> MeshFile(const ModelFile& model, const ExportRequest& request,
                                      ThreadPool* pool, const std::stop_token& stop,
                                      const ExportProgress& progress) {
  NERF_ASSIGN_OR_RETURN(const MarchedModel* const marched, MarchedModelOf(model, "mesh"));
  const SceneGeometry& geometry = model.state.geometry;
  const std::vector<Camera> cameras = PhotographsOf(model.state);
  const MeshOptions options = {
      .own_box = request.own_box,
      .resolution = static_cast<int>(request.spec.resolution()),
      .n_triangles = request.spec.triangles(),
      .level = static_cast<float>(request.own_density / geometry.frame.scale),
      .time = request.time,
      .texture_size = static_cast<int>(request.spec.texture())};
  NERF_ASSIGN_OR_RETURN(const MeshExport made,
                        MakeMesh(*marched, geometry, cameras, options, pool, stop, progress));
  progress("file", 0);
  const bool is_glb = request.spec.format() == v1::ExportSpec::GLB;
  const ExportAxes axes(request.axes, is_glb, geometry);
  ExportedFile file;
  if (is_glb) {
    NERF_ASSIGN_OR_RETURN(file.bytes, MeshGlb(made.mesh, made.texture, axes));
  } else {
    file.bytes = MeshPly(made.mesh, axes);
  }
  file.n_vertices = made.mesh.positions.size();
  file.n_triangles = made.mesh.n_triangles();
  file.axes = axes.words();
  file.words =
      fmt::format("a mesh of {} triangles and {} vertices", file.n_triangles, file.n_vertices);
  if (made.n_found > file.n_triangles) {
    file.words += fmt::format(", simplified from {} triangles", made.n_found);
  }
  if (request.spec.texture() > 0) {
    file.words += fmt::format(", with a texture of {0}x{0}", request.spec.texture());
  }
  file.words += OriginWords(axes, is_glb ? "the node's translation" : "as the header says");
  file.words += LeftOut(made.dropped);
  if (made.is_of_shown) file.words += "; left out fog that no two photographs show";
  return file;
}

// Which points are looked for, and in views of which cameras.
struct PointsToFind {
  std::vector<Camera> cameras;
  SurfacePointOptions options;
};

PointsToFind PointsOf(const ModelFile& model, const ExportRequest& request) {
  const SceneGeometry& geometry = model.state.geometry;
  const Aabb occupied = model.model->OccupiedBox();
  PointsToFind wanted;
  wanted.cameras = CamerasOfViews(model, request.time);
  SurfacePointOptions& options = wanted.options;
  options.near = geometry.near;
  options.render.background = BackgroundColor(model.state.evaluation_background);
  options.render.min_transmittance = MinTransmittance(model.state.config);
  options.box = occupied;
  if (request.own_box.has_value()) {
    for (int axis = 0; axis < 3; ++axis) {
      options.box.max[axis] = static_cast<float>(0.5 * request.own_box->size[axis]);
      options.box.min[axis] = -options.box.max[axis];
    }
    options.to_box = ToBox(*request.own_box, geometry.frame);
  }
  options.cell = SampleGridOver(occupied, request.own_box, geometry.frame,
                                static_cast<int>(request.spec.resolution()))
                     .cell;
  return wanted;
}

absl::StatusOr<ExportedFile> PointsFile(const ModelFile& model, const ExportRequest& request,
                                        ThreadPool* pool, const std::stop_token& stop,
                                        const ExportProgress& progress) {
  const auto [cameras, options] = PointsOf(model, request);
  const double n_views = static_cast<double>(std::min<size_t>(cameras.size(), options.max_views));
  const std::vector<SurfacePoint> points =
      FindSurfacePoints(*model.model, cameras, options, pool, stop,
                        [&](int n_done) { progress("views", n_done / n_views); });
  if (stop.stop_requested()) return absl::CancelledError("the export was interrupted");
  if (points.empty()) {
    return absl::InvalidArgumentError(
        "no point: in the box, no two views of the model agree on a surface");
  }
  const ExportAxes axes(request.axes, /*is_y_up=*/false, model.state.geometry);
  ExportedFile file;
  file.bytes = PointsPly(points, axes);
  file.n_vertices = points.size();
  file.axes = axes.words();
  file.words = fmt::format("{} from {}", Counted(points.size(), "point"),
                           Counted(static_cast<int>(n_views), "view"));
  file.words += OriginWords(axes, "as the header says");
  return file;
}

absl::StatusOr<ExportedFile> VolumeFile(const ModelFile& model, const ExportRequest& request,
                                        ThreadPool* pool, const std::stop_token& stop,
                                        const ExportProgress& progress) {
  NERF_ASSIGN_OR_RETURN(const MarchedModel* const marched, MarchedModelOf(model, "volume"));
  const SceneGeometry& geometry = model.state.geometry;
  NERF_ASSIGN_OR_RETURN(const Volume volume, MakeVolume(*marched, geometry, request.own_box,
                                                        static_cast<int>(request.spec.resolution()),
                                                        request.time, pool, stop, progress));
  progress("file", 0);
  const ExportAxes axes(request.axes, /*is_y_up=*/false, geometry);
  ExportedFile file;
  if (request.spec.format() == v1::ExportSpec::VDB) {
    file.bytes = VolumeVdb(volume, axes);
  } else {
    NERF_ASSIGN_OR_RETURN(file.bytes, VolumeNanoVdb(volume, axes));
  }
  file.n_vertices = volume.n_points;
  file.axes = axes.words();
  const int* const size = volume.grid.size;
  file.words = fmt::format("density and color of {} in a grid of {}x{}x{}",
                           Counted(volume.n_points, "point"), size[0], size[1], size[2]);
  return file;
}

absl::StatusOr<ExportedFile> CamerasFile(const ModelFile& model, const ExportRequest& request) {
  std::vector<NamedCamera> cameras;
  for (const auto* views : {&model.state.capture, &model.state.test_capture}) {
    for (const CaptureView& view : *views) {
      if (!IsListedLens(view.camera.lens)) {
        return absl::InvalidArgumentError(
            view.file + ": transforms.json has no name for its lens (FOV or THIN_PRISM_FISHEYE)");
      }
      cameras.push_back({view.file, WithFoundFocal(model.lenses, view.camera)});
      cameras.back().is_test = views == &model.state.test_capture;
    }
  }
  if (cameras.empty()) {
    return absl::InvalidArgumentError("the model's file stores no cameras of photographs");
  }
  const ExportAxes axes(request.axes, /*is_y_up=*/false, model.state.geometry);
  ExportedFile file;
  file.bytes = CameraListJson(cameras, axes);
  file.n_vertices = cameras.size();
  file.axes = axes.words();
  file.words = Counted(cameras.size(), "camera");
  return file;
}

}  // namespace

std::vector<Camera> PhotographsOf(const TrainState& state) {
  std::vector<Camera> cameras;
  for (const CaptureView& view : state.capture) cameras.push_back(view.camera);
  return cameras;
}

std::vector<Camera> CamerasOfViews(const ModelFile& model, float time) {
  std::vector<Camera> cameras = PhotographsOf(model.state);
  if (cameras.empty()) {
    cameras = OrbitCameras(model.state.geometry, model.model->OccupiedBox().Center(),
                           model.state.reference_camera, kOrbitViews);
  }
  for (Camera& camera : cameras) camera.time = time;
  return cameras;
}

std::string OriginWords(const ExportAxes& axes, std::string_view place) {
  if (!axes.has_origin()) return "";
  return fmt::format("; positions are relative to {}, {}", OriginText(axes.origin()), place);
}

double MaxExportedPoints(const ModelFile& model, const ExportRequest& request) {
  const PointsToFind wanted = PointsOf(model, request);
  return MaxSurfacePoints(wanted.cameras, wanted.options);
}

absl::StatusOr<ExportedFile> MakeExport(const ModelFile& model, const ExportRequest& request,
                                        ThreadPool* pool, const std::stop_token& stop,
                                        const ExportProgress& progress) {
  switch (request.spec.format()) {
    case v1::ExportSpec::PLY:
    case v1::ExportSpec::GLB:
      return MeshFile(model, request, pool, stop, progress);
    case v1::ExportSpec::POINTS:
      return PointsFile(model, request, pool, stop, progress);
    case v1::ExportSpec::SPLATS:
    case v1::ExportSpec::SPZ:
    case v1::ExportSpec::SOG:
    case v1::ExportSpec::SPLATS_GLB:
      return MakeSplatFile(model, request, pool, stop, progress);
    case v1::ExportSpec::VDB:
    case v1::ExportSpec::NVDB:
      return VolumeFile(model, request, pool, stop, progress);
    case v1::ExportSpec::NERFSTUDIO_PATH:
      return MakePathFile(model, request, PathTool::kNerfstudio);
    case v1::ExportSpec::NGP_PATH:
      return MakePathFile(model, request, PathTool::kInstantNgp);
    default:
      return CamerasFile(model, request);
  }
}

}  // namespace nerf
