#include "engine/scene/depth_files.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "engine/scene/scene_reader.h"

namespace nerf {
namespace {

constexpr double kMaxDepthAspectDifference = 0.01;

// Without the path at its start: the problem names the file.
std::string WithoutPath(const absl::Status& status, const std::string& path) {
  std::string message(status.message());
  if (message.compare(0, path.size() + 2, path + ": ") == 0) message.erase(0, path.size() + 2);
  return message;
}

absl::Status CheckHeader(const SceneFolder& folder, const ViewDescription& view,
                         const ImageLimits& limits) {
  const std::string path = folder.PathOf(view.depth.file);
  const absl::StatusOr<ImageHeader> header = ReadImageHeader(path);
  if (!header.ok()) return absl::InvalidArgumentError(WithoutPath(header.status(), path));
  NERF_RETURN_IF_ERROR(CheckImageLimits(*header, limits));
  if (header->format != ImageFormat::kPng)
    return absl::InvalidArgumentError("is no PNG; depth files are 16-bit gray PNGs");
  const double aspect = static_cast<double>(header->width) / header->height;
  const double of_view = static_cast<double>(view.header.width) / view.header.height;
  if (std::abs(aspect / of_view - 1) > kMaxDepthAspectDifference) {
    return absl::InvalidArgumentError(
        absl::StrFormat("is %dx%d, its picture %dx%d: another aspect ratio", header->width,
                        header->height, view.header.width, view.header.height));
  }
  return absl::OkStatus();
}

absl::StatusOr<GrayImage16> Decode(const SceneFolder& folder, const ViewDescription& view,
                                   const ImageLimits& limits) {
  NERF_ASSIGN_OR_RETURN(const std::string bytes,
                        ReadRegularFile(folder.PathOf(view.depth.file), limits.max_file_bytes));
  NERF_ASSIGN_OR_RETURN(GrayImage16 image, DecodePng16(bytes, limits));
  const bool knows_any = std::any_of(image.pixels.begin(), image.pixels.end(),
                                     [](uint16_t value) { return value != 0; });
  if (!knows_any) return absl::InvalidArgumentError("knows no depth: all of its values are 0");
  return image;
}

// Means would put surfaces between a near and a far one.
GrayImage16 Nearest(GrayImage16 image, int width, int height) {
  if (image.width <= width && image.height <= height) return image;
  GrayImage16 reduced{std::min(image.width, width), std::min(image.height, height), {}};
  for (int y = 0; y < reduced.height; ++y) {
    const int64_t from_y = (2 * int64_t{y} + 1) * image.height / (2 * int64_t{reduced.height});
    for (int x = 0; x < reduced.width; ++x) {
      const int64_t from_x = (2 * int64_t{x} + 1) * image.width / (2 * int64_t{reduced.width});
      reduced.pixels.push_back(image.pixels[from_y * image.width + from_x]);
    }
  }
  return reduced;
}

}  // namespace

void CheckDepthHeaders(const SceneFolder& folder, const std::vector<ViewDescription>& views,
                       const ImageLimits& limits, std::vector<SceneProblem>* problems) {
  for (const ViewDescription& view : views) {
    if (view.depth.file.empty()) continue;
    const absl::Status status = CheckHeader(folder, view, limits);
    if (status.ok()) continue;
    AddProblem(problems, view.depth.list_file, view.depth.field,
               absl::StrCat(Printable(view.depth.file), ": ", status.message()));
  }
}

std::vector<DepthMap> DecodeDepthFiles(const SceneFolder& folder,
                                       const std::vector<ViewDescription>& views, double scale,
                                       const SceneOptions& options, bool keep, ThreadPool* pool,
                                       std::vector<SceneProblem>* problems) {
  std::vector<DepthMap> maps;
  for (size_t i = 0; i < views.size(); ++i) {
    if (!views[i].depth.file.empty()) maps.emplace_back().view = static_cast<int32_t>(i);
  }
  std::vector<std::string> messages(maps.size());
  pool->ParallelFor(static_cast<int64_t>(maps.size()), [&](int64_t i, int thread) {
    if (options.stop.stop_requested()) return;
    if (thread == 0 && options.between_images) options.between_images();
    DepthMap& map = maps[i];
    const ViewDescription& view = views[map.view];
    absl::StatusOr<GrayImage16> image = Decode(folder, view, options.image_limits);
    if (!image.ok()) {
      messages[i] = std::string(image.status().message());
      return;
    }
    if (!keep) return;
    map.image = Nearest(*std::move(image), view.camera.width, view.camera.height);
    map.pixels_x = static_cast<float>(view.camera.width) / static_cast<float>(map.image.width);
    map.pixels_y = static_cast<float>(view.camera.height) / static_cast<float>(map.image.height);
    map.unit = static_cast<float>(view.depth.unit * scale);
    const LensModel lens = view.camera.lens;
    map.along_axis = lens == LensModel::kPinhole || lens == LensModel::kOpenCv;
  });
  for (size_t i = 0; i < maps.size(); ++i) {
    if (messages[i].empty()) continue;
    const DepthFile& depth = views[maps[i].view].depth;
    AddProblem(problems, depth.list_file, depth.field,
               absl::StrCat(Printable(depth.file), ": ", messages[i]));
  }
  if (!keep) maps.clear();
  return maps;
}

float DistanceOf(const DepthMap& map, uint16_t value, const Mat34& camera_to_world,
                 Vec3 direction) {
  const float depth = map.unit * static_cast<float>(value);
  if (!map.along_axis) return depth;
  const float along = -Dot(camera_to_world.Column(2), direction);
  return along > 0 ? depth / along : 0;
}

std::vector<SeenPoint> HeldOutPoints(const std::vector<DepthMap>& maps,
                                     const std::vector<View>& views) {
  constexpr size_t kPointsOfMap = 64;
  std::vector<SeenPoint> points;
  for (const DepthMap& map : maps) {
    const Camera& camera = views[map.view].camera;
    const size_t n_held_out = (map.image.pixels.size() + kDepthHeldOut - 1) / kDepthHeldOut;
    const size_t n_points = std::min(n_held_out, kPointsOfMap);
    for (size_t i = 0; i < n_points; ++i) {
      const size_t pixel = kDepthHeldOut * ((2 * i + 1) * n_held_out / (2 * n_points));
      const auto width = static_cast<size_t>(map.image.width);
      const Ray ray = CameraRay(camera, map.PictureX(static_cast<int>(pixel % width)),
                                map.PictureY(static_cast<int>(pixel / width)));
      const float distance =
          DistanceOf(map, map.image.pixels[pixel], camera.camera_to_world, ray.direction);
      if (distance > 0) points.push_back({map.view, ray.origin + ray.direction * distance});
    }
  }
  return points;
}

}  // namespace nerf
