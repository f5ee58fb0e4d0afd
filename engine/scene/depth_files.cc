#include "engine/scene/depth_files.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstddef>
#include <semaphore>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "engine/scene/decode_views.h"
#include "engine/scene/files/foreign_file.h"
#include "engine/scene/files/npy.h"
#include "engine/scene/scene_description.h"

namespace nerf {
namespace {

constexpr double kMaxDepthAspectDifference = 0.01;

// Without the path at its start: the problem names the file.
std::string WithoutPath(const absl::Status& status, const std::string& path) {
  std::string message(status.message());
  if (message.compare(0, path.size() + 2, path + ": ") == 0) message.erase(0, path.size() + 2);
  return message;
}

constexpr size_t kHeadBytes = 4096;
constexpr const char* kWhatIsRead = "; 16-bit gray PNG and .npy are read";

bool IsNpy(std::string_view head) { return head.substr(0, 6) == "\x93NUMPY"; }

// The kind of a picture that is no depth file, by its first bytes; empty: it may be one, or nothing
// that is known.
std::string OtherKind(std::string_view head) {
  constexpr size_t kDepthAt = 24, kColorAt = 25;  // in a PNG
  if (head.substr(0, 8) == "\x89PNG\r\n\x1a\n" && head.size() > kColorAt) {
    const int bits = static_cast<unsigned char>(head[kDepthAt]), color = head[kColorAt];
    if (color == 0 && bits == 16) return "";
    return absl::StrCat("is a PNG of ", bits, "-bit ",
                        color == 0   ? "gray"
                        : color == 3 ? "palette colors, as of a picture in false colors"
                        : color == 4 ? "gray with alpha"
                                     : "RGB, as of a picture in false colors");
  }
  if (head.substr(0, 3) == "\xff\xd8\xff")
    return "is no PNG but a JPEG, whose values are not exact";
  const std::string kind = ForeignFileKind(head);
  return kind.empty() ? "" : "is " + kind;
}

absl::Status CheckHeader(const SceneFolder& folder, const ViewDescription& view,
                         const ImageLimits& limits) {
  const std::string path = folder.PathOf(view.depth.file);
  NERF_ASSIGN_OR_RETURN(const std::string head, ReadHead(path, kHeadBytes));
  ImageHeader header;
  if (IsNpy(head)) {
    NERF_ASSIGN_OR_RETURN(const NpyArray array, ParseNpyHeader(head));
    if (array.shape.size() != 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("has ", array.shape.size(), " axes; depths have two: height and width"));
    }
    header.width = static_cast<int>(std::min<size_t>(array.shape[1], INT_MAX));
    header.height = static_cast<int>(std::min<size_t>(array.shape[0], INT_MAX));
    if (header.width == 0 || header.height == 0) return absl::InvalidArgumentError("is empty");
  } else {
    if (const std::string kind = OtherKind(head); !kind.empty())
      return absl::InvalidArgumentError(absl::StrCat(kind, kWhatIsRead));
    const absl::StatusOr<ImageHeader> png = ReadImageHeader(path);
    if (!png.ok())
      return absl::InvalidArgumentError(absl::StrCat(WithoutPath(png.status(), path), kWhatIsRead));
    header = *png;
  }
  NERF_RETURN_IF_ERROR(CheckImageLimits(header, limits));
  const double aspect = static_cast<double>(header.width) / header.height;
  const double of_view = static_cast<double>(view.header.width) / view.header.height;
  if (std::abs(aspect / of_view - 1) > kMaxDepthAspectDifference) {
    return absl::InvalidArgumentError(
        absl::StrFormat("is %dx%d, its picture %dx%d: another aspect ratio", header.width,
                        header.height, view.header.width, view.header.height));
  }
  return absl::OkStatus();
}

// A decoded depth file.
struct DecodedDepth {
  GrayImage16 image;
  double unit = 1;  // what a value of 1 is of the file's numbers
};

// Numbers in 65535 steps up to the largest. Those that are not above 0, and those that stand for
// the sky (far beyond the median), are not known.
DecodedDepth Quantized(const NpyArray& array) {
  constexpr double kMaxOverMedian = 100;
  DecodedDepth depth;
  depth.image.height = static_cast<int>(array.shape[0]);
  depth.image.width = static_cast<int>(array.shape[1]);
  std::vector<float> known;
  for (size_t y = 0; y < array.shape[0]; ++y) {
    for (size_t x = 0; x < array.shape[1]; ++x) {
      const auto value = static_cast<float>(array.At(y, x));
      if (std::isfinite(value) && value > 0) known.push_back(value);
    }
  }
  depth.image.pixels.resize(array.shape[0] * array.shape[1]);
  if (known.empty()) return depth;
  const auto middle = known.begin() + static_cast<std::ptrdiff_t>(known.size() / 2);
  std::nth_element(known.begin(), middle, known.end());
  const double limit = kMaxOverMedian * *middle;
  double largest = 0;
  for (const float value : known) {
    if (value <= limit) largest = std::max(largest, static_cast<double>(value));
  }
  depth.unit = largest / 65535;
  for (size_t y = 0; y < array.shape[0]; ++y) {
    for (size_t x = 0; x < array.shape[1]; ++x) {
      const double value = array.At(y, x);
      if (value > 0 && value <= largest) {
        depth.image.pixels[y * array.shape[1] + x] =
            static_cast<uint16_t>(std::lround(value / depth.unit));
      }
    }
  }
  return depth;
}

absl::StatusOr<DecodedDepth> Decode(const SceneFolder& folder, const ViewDescription& view,
                                    const ImageLimits& limits) {
  NERF_ASSIGN_OR_RETURN(const std::string bytes,
                        ReadRegularFile(folder.PathOf(view.depth.file), limits.max_file_bytes));
  DecodedDepth depth;
  if (IsNpy(bytes)) {
    NERF_ASSIGN_OR_RETURN(const NpyArray array, ParseNpy(bytes));
    if (array.shape.size() != 2) return absl::InvalidArgumentError("changed while it was read");
    depth = Quantized(array);
  } else {
    NERF_ASSIGN_OR_RETURN(depth.image, DecodePng16(bytes, limits));
  }
  const bool knows_any = std::any_of(depth.image.pixels.begin(), depth.image.pixels.end(),
                                     [](uint16_t value) { return value != 0; });
  if (!knows_any) return absl::InvalidArgumentError("knows no depth: all of its values are 0");
  return depth;
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
                       const ImageLimits& limits, Problems* problems) {
  for (const ViewDescription& view : views) {
    if (view.depth.file.empty()) continue;
    const absl::Status status = CheckHeader(folder, view, limits);
    if (status.ok()) continue;
    problems->Add(view.depth.list_file, view.depth.field,
                  absl::StrCat(Printable(view.depth.file), ": ", status.message()));
  }
}

std::vector<DepthMap> DecodeDepthFiles(const SceneFolder& folder,
                                       const std::vector<ViewDescription>& views, double scale,
                                       const SceneOptions& options, bool keep, ThreadPool* pool,
                                       Problems* problems) {
  std::vector<DepthMap> maps;
  for (size_t i = 0; i < views.size(); ++i) {
    if (!views[i].depth.file.empty()) maps.emplace_back().view = static_cast<int32_t>(i);
  }
  std::vector<std::string> messages(maps.size()), paths;
  for (const DepthMap& map : maps) paths.push_back(folder.PathOf(views[map.view].depth.file));
  std::counting_semaphore<> decoders(
      DecodesAtOnce(LargestDecoded(paths), options.memory_limit_bytes, pool->n_threads()));
  pool->ParallelFor(static_cast<int64_t>(maps.size()), [&](int64_t i, int thread) {
    if (options.stop.stop_requested()) return;
    decoders.acquire();
    const absl::Cleanup release = [&] { decoders.release(); };
    if (thread == 0 && options.between_images) options.between_images();
    DepthMap& map = maps[i];
    const ViewDescription& view = views[map.view];
    absl::StatusOr<DecodedDepth> depth = Decode(folder, view, options.image_limits);
    if (!depth.ok()) {
      messages[i] = std::string(depth.status().message());
      return;
    }
    if (!keep) return;
    map.image = Nearest(std::move(depth->image), view.camera.width, view.camera.height);
    map.pixels_x = static_cast<float>(view.camera.width) / static_cast<float>(map.image.width);
    map.pixels_y = static_cast<float>(view.camera.height) / static_cast<float>(map.image.height);
    map.unit = static_cast<float>(depth->unit * view.depth.unit * scale);
    map.along_axis = IsOnPlane(view.camera.lens);
  });
  for (size_t i = 0; i < maps.size(); ++i) {
    if (messages[i].empty()) continue;
    const DepthFile& depth = views[maps[i].view].depth;
    problems->Add(depth.list_file, depth.field,
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
