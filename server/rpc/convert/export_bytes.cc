#include "server/rpc/convert/export_bytes.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/config/view_limits.h"
#include "engine/base/export_bytes.h"
#include "engine/base/messages/export_options.h"
#include "engine/base/method_list/method_descriptions.h"
#include "server/queue/jobs/job.h"

namespace nerf {
namespace {

// Of files, on average.
constexpr double kCameraBytes = 620, kNerfstudioCameraBytes = 430, kNgpCameraBytes = 290;
constexpr double kViewPixelBytes = 5;  // 4 of a depth, and of a PNG
// A viewer file beside its model: the page, the path that it plays, and for each photograph about
// what the model's header has.
constexpr double kViewerPageBytes = 56'000;
constexpr double kBase64Growth = 4.0 / 3;
constexpr uint32_t kMaxGridLevels = 16;
// Of the header of a model's file: what it has beside photographs, and for each of these.
constexpr double kHeaderBytes = 3800, kHeaderCameraBytes = 154;
// The largest baked model: nodes, 9 bytes a block, and what is behind everything.
constexpr double kMaxBakedBytes = 13 * kMaxBakedTextures / 16.0 + 9 * kMaxBakedBlocks + (2 << 20);

// Cells along the axes of the box, or of the largest one where it is not known.
struct GridCells {
  double n[3];
};

GridCells CellsOf(const v1::ExportSpec& spec) {
  const double resolution = spec.resolution();
  GridCells cells = {{resolution, resolution, resolution}};
  if (spec.box().size_size() != 3) return cells;
  const auto& size = spec.box().size();
  const double longest = std::max({size[0], size[1], size[2]});
  for (int axis = 0; axis < 3; ++axis)
    cells.n[axis] = std::max(1.0, std::ceil(resolution * size[axis] / longest));
  return cells;
}

double MaxPointsOf(const v1::ExportSpec& spec) {
  double n = 1;
  for (const double cells : CellsOf(spec).n) n *= cells + 2;
  return std::min(n, kMaxPoints);
}

// With every cube of points in use.
VolumeExtent FullExtent(const v1::ExportSpec& spec) {
  VolumeExtent extent{1, 1, 1, 1};
  for (const double cells : CellsOf(spec).n) {
    extent.n_points *= cells + 1;
    extent.n_leaves *= std::ceil((cells + 3) / 8);
    extent.n_lower *= std::ceil((cells + 3) / 128);
  }
  extent.n_points = std::min(extent.n_points, static_cast<double>(kMaxVolumePoints));
  return extent;
}

double PathBytes(const v1::ExportSpec& spec, double n_cameras) {
  return n_cameras * (spec.format() == v1::ExportSpec::NERFSTUDIO_PATH ? kNerfstudioCameraBytes
                                                                       : kNgpCameraBytes);
}

// Of a data set of views through these cameras.
ExportBytes ViewSetBytes(const v1::CameraPath& path) {
  ExportBytes size;
  for (const v1::Camera& camera : path.cameras().cameras()) {
    const double width = camera.width(), height = camera.height();
    const double shrink = std::sqrt(std::min(1.0, kMaxDefaultViewPixels / (width * height)));
    size.expected += shrink * shrink * width * height * kViewPixelBytes;
    size.max += MaxViewBytes(std::ceil(shrink * width), std::ceil(shrink * height));
  }
  return size;
}

// The model that a job is of: what its record has, and what its file's header says.
struct KnownModel {
  TrainConfig config;
  std::vector<TensorRecord> tensors;
  double byte_size = 0;
};

double BytesOf(const TensorRecord& tensor) {
  const double each = tensor.dtype == "U8" ? 1 : tensor.dtype.ends_with("16") ? 2 : 4;
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(), each, std::multiplies<>());
}

std::optional<KnownModel> FindModel(const ServiceContext& services, const ModelSource& source) {
  KnownModel model;
  std::string method;
  v1::TrainingConfig trained;
  ResourceKey trained_by = source.source;
  if (source.from_checkpoint) {
    const absl::StatusOr<Job> job = services.queue.Get(source.source);
    if (!job.ok()) return std::nullopt;
    for (const CheckpointRecord& checkpoint : job->checkpoints) {
      if (source.step.has_value() && checkpoint.step != *source.step) continue;
      model.tensors = checkpoint.tensors;
      model.byte_size = static_cast<double>(checkpoint.model_blob.byte_size);
    }
    trained = job->training.config;
    method = trained.method();
  } else {
    const absl::StatusOr<ModelRecord> record = services.models.Get(source.source);
    if (!record.ok()) return std::nullopt;
    model.tensors = record->tensors;
    model.byte_size = static_cast<double>(record->blob.byte_size);
    method = record->method;
    const absl::StatusOr<Job> job = services.queue.Get({source.source.project, record->job});
    if (job.ok()) trained = job->training.config;
  }
  absl::StatusOr<TrainConfig> config = DefaultConfig(method);
  if (!config.ok()) return std::nullopt;
  model.config = *std::move(config);
  for (const auto& [key, value] : trained.settings())
    SetConfigField(key, value, &model.config).IgnoreError();  // of another version
  return model;
}

double ViewerBytes(KnownModel model, double header_bytes) {
  const auto grid = std::find_if(model.tensors.begin(), model.tensors.end(), [](const auto& it) {
    return it.name == "occupancy.bits" && it.shape.size() == 4 && it.shape[0] >= 1 &&
           it.shape[0] <= kMaxGridLevels;
  });
  if (grid == model.tensors.end()) return 0;
  std::vector<TensorShape> held;
  for (const TensorRecord& tensor : model.tensors)
    held.push_back({tensor.name, tensor.dtype, tensor.shape});
  const MethodDescription& method = MethodDescriptionOf(model.config);
  method.TakeFromTensors(held, &model.config);
  const double field = method.ViewerBytes(model.config, static_cast<int>(grid->shape[0]));
  if (field == 0) return 0;
  // Each block of 64 cells also has its distance to the next one in use.
  return (field + BytesOf(*grid) * 9 / 8) * kBase64Growth + kViewerPageBytes + header_bytes;
}

}  // namespace

ExportBytes BytesOfRequest(const v1::ExportSpec& spec) {
  switch (spec.format()) {
    case v1::ExportSpec::PLY:
    case v1::ExportSpec::GLB:
      if (spec.texture() > 0) return {};
      return {ExpectedMeshBytes(spec.format() == v1::ExportSpec::GLB, spec.triangles()), 0};
    case v1::ExportSpec::POINTS:
      return {0, MaxPointFileBytes(MaxPointsOf(spec))};
    case v1::ExportSpec::SPLATS:
    case v1::ExportSpec::SPZ:
    case v1::ExportSpec::SOG:
    case v1::ExportSpec::SPLATS_GLB:
      return {0, MaxSplatFileBytes(SplatFileOf(spec.format()), spec.max_splats())};
    case v1::ExportSpec::VDB:
      return {0, MaxVdbBytes(FullExtent(spec))};
    case v1::ExportSpec::NVDB:
      return {0, MaxNanoVdbBytes(FullExtent(spec))};
    case v1::ExportSpec::VIEWER:
      if (!spec.baked()) return {};
      return {0, kMaxBakedBytes * kBase64Growth + kViewerPageBytes};
    case v1::ExportSpec::NERFSTUDIO_PATH:
    case v1::ExportSpec::NGP_PATH: {
      if (!spec.has_path()) return {};
      const v1::CameraPath& path = spec.path();
      // instant-ngp's has the keyframes themselves.
      const double n_cameras = path.has_cameras() ? path.cameras().cameras_size()
                               : spec.format() == v1::ExportSpec::NERFSTUDIO_PATH
                                   ? path.keyframes().frames()
                                   : path.keyframes().keyframes_size();
      return {PathBytes(spec, n_cameras), 0};
    }
    case v1::ExportSpec::VIEWS:
      return ViewSetBytes(spec.path());
    default:
      return {};
  }
}

double BytesOfModel(const ServiceContext& services, const ModelSource& source,
                    const v1::ExportSpec& spec) {
  const bool is_viewer = spec.format() == v1::ExportSpec::VIEWER && !spec.baked();
  const bool is_of_photographs =
      spec.format() == v1::ExportSpec::CAMERAS || (IsPath(spec.format()) && !spec.has_path());
  if (!is_viewer && !is_of_photographs) return 0;
  const std::optional<KnownModel> model = FindModel(services, source);
  if (!model.has_value() || model->tensors.empty()) return 0;
  double header = model->byte_size;
  for (const TensorRecord& tensor : model->tensors) header -= BytesOf(tensor);
  header = std::max(0.0, header);
  if (is_viewer) return ViewerBytes(*model, header);
  const double n_cameras = std::max(1.0, (header - kHeaderBytes) / kHeaderCameraBytes);
  return spec.format() == v1::ExportSpec::CAMERAS ? n_cameras * kCameraBytes
                                                  : PathBytes(spec, n_cameras);
}

}  // namespace nerf
