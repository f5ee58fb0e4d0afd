#include "engine/base/messages/render_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "common/messages/path_kind.h"
#include "engine/base/camera_matrix.h"
#include "engine/base/config/view_limits.h"
#include "engine/base/config/view_style_check.h"
#include "engine/base/messages/view_style.h"

namespace nerf {
namespace {

constexpr int kMaxKeyframes = 1000;
constexpr double kMaxMovieFps = 240, kDefaultMovieFps = 30;
// More channels than there are; what follows is not looked at.
constexpr int kMaxChannels = 16;

void CheckSide(std::string_view field, uint32_t side, Problems& problems) {
  problems.Require(side >= 1 && side <= kMaxViewSide, field,
                   fmt::format("must be 1 to {}", kMaxViewSide));
}

void CheckCameraMatrix(std::string_view field,
                       const google::protobuf::RepeatedField<double>& matrix, Problems& problems) {
  problems.Require(matrix.size() == 16, field,
                   fmt::format("must be 16 numbers, not {}", matrix.size()));
  bool are_numbers = matrix.size() == 16;
  for (int i = 0; i < std::min(matrix.size(), 16); ++i) {
    const bool is_number = std::abs(matrix[i]) <= kMaxCoordinate;
    problems.Require(is_number, fmt::format("{}[{}]", field, i),
                     "must be a finite number up to 1e9");
    are_numbers = are_numbers && is_number;
  }
  if (!are_numbers) return;
  double columns[3][4], scale = 0;
  std::copy(matrix.begin(), matrix.begin() + 12, &columns[0][0]);
  const bool is_rotation = IsScaledRotation(columns, &scale);
  problems.Require(is_rotation, field,
                   "the first 3 columns are not a rotation (zero, mirrored, sheared or unequally "
                   "scaled)");
  bool has_bottom_row = true;
  for (int i = 12; i < 16; ++i) {
    has_bottom_row =
        has_bottom_row && std::abs(matrix[i] - (i == 15 ? 1 : 0)) <= kMaxBottomRowError;
  }
  problems.Require(!is_rotation || has_bottom_row, field, "the last row must be 0 0 0 1");
}

// Checks the number of pixels; the sides were checked before. For an orbit the engine checks it,
// because only the engine knows the shape of its views.
void CheckViewSize(const v1::RenderImageRequest& request, Problems& problems) {
  const auto is_side = [](uint32_t side) { return side >= 1 && side <= kMaxViewSide; };
  const v1::Camera& camera = request.camera();
  const bool shape_known = is_side(camera.width()) && is_side(camera.height());
  const bool both_asked = is_side(request.width()) && is_side(request.height());
  const bool too_large = request.width() > kMaxViewSide || request.height() > kMaxViewSide;
  if (too_large || !(shape_known || both_asked)) return;
  const absl::Status status =
      ResolveViewSize({camera.width(), camera.height()}, {request.width(), request.height()})
          .status();
  const std::string_view field = request.width() > 0    ? "width"
                                 : request.height() > 0 ? "height"
                                                        : "camera.width";
  problems.Require(status.ok(), field, {status.message().data(), status.message().size()});
}

void CheckStyle(const v1::ViewStyle& message, ViewSize asked, Problems& problems) {
  const ViewStyle style = ReadViewStyle("style", message, &problems);
  if (style.panorama.has_value())
    problems.Add("width", PanoramaSize(style.panorama->stereo, asked).status());
}

// The field that FramesOf counts, within a path of some kind.
std::string_view FramesField(const v1::CameraPath& path) {
  if (path.has_cameras()) return "cameras";
  return path.has_keyframes() ? "keyframes.frames" : "scene.frames";
}

void CheckKeyframe(std::string_view field, const v1::Keyframe& keyframe, Problems& problems) {
  CheckCameraMatrix(fmt::format("{}.transform_matrix", field), keyframe.transform_matrix(),
                    problems);
  const double fov = keyframe.fov_degrees();
  problems.Require(fov >= 0.01 && fov <= 179, fmt::format("{}.fov_degrees", field),
                   "must be 0.01 to 179");
}

}  // namespace

Problems ProblemsOf(const v1::Camera& camera) {
  Problems problems;
  CheckSide("width", camera.width(), problems);
  CheckSide("height", camera.height(), problems);
  problems.Require(std::isfinite(camera.fl_x()) && camera.fl_x() > 0, "fl_x",
                   "must be a number above 0");
  problems.Require(std::isfinite(camera.fl_y()) && camera.fl_y() >= 0, "fl_y",
                   "must be a number above 0, or 0 for fl_x");
  const auto require_finite = [&](std::string_view field, double value) {
    problems.Require(std::isfinite(value), field, "must be a finite number");
  };
  require_finite("cx", camera.cx());
  require_finite("cy", camera.cy());
  require_finite("k1", camera.k1());
  require_finite("k2", camera.k2());
  require_finite("k3", camera.k3());
  require_finite("p1", camera.p1());
  require_finite("p2", camera.p2());
  problems.Require(camera.time() >= 0 && camera.time() <= 1, "time", "must be 0 to 1");
  problems.Require(v1::LensModel_IsValid(camera.lens()), "lens",
                   "is not a lens known to this version");
  CheckCameraMatrix("transform_matrix", camera.transform_matrix(), problems);
  return problems;
}

Problems ProblemsOf(const v1::CameraPath& path) {
  Problems problems;
  const uint32_t n_frames = FramesOf(path);
  const bool has_kind = path.kind_case() != v1::CameraPath::KIND_NOT_SET;
  problems.Require(has_kind, "", "must be one of cameras, keyframes and scene");
  problems.Require(!has_kind || (n_frames >= 1 && n_frames <= kMaxPathFrames), FramesField(path),
                   fmt::format("must be 1 to {} frames", kMaxPathFrames));
  const int n_keyframes = path.keyframes().keyframes_size();
  if (path.has_keyframes()) {
    problems.Require(n_keyframes >= 1 && n_keyframes <= kMaxKeyframes, "keyframes",
                     fmt::format("must be 1 to {} keyframes", kMaxKeyframes));
  }
  for (int i = 0; i < std::min(n_keyframes, kMaxKeyframes); ++i) {
    CheckKeyframe(fmt::format("keyframes[{}]", i), path.keyframes().keyframes(i), problems);
  }
  for (int i = 0; i < path.cameras().cameras_size() && i < static_cast<int>(kMaxPathFrames); ++i)
    problems.Add(ProblemsOf(path.cameras().cameras(i)), fmt::format("cameras[{}]", i));
  problems.Require(v1::PathKind_IsValid(path.scene().path()), "scene",
                   "is not a path known to this version");
  return problems;
}

Problems ProblemsOfChannels(const google::protobuf::RepeatedField<int>& channels,
                            v1::ImageFormat format) {
  Problems problems;
  const auto has = [&](int channel) {
    return std::find(channels.begin(), channels.end(), channel) != channels.end();
  };
  problems.Require(!has(v1::RGB) || !has(v1::RGBA), "channels", "RGBA is in place of RGB");
  problems.Require(!has(v1::RGBAZ) || !(has(v1::RGB) || has(v1::RGBA)), "channels",
                   "RGBAZ is in place of RGB and RGBA");
  std::set<int> seen;
  for (int i = 0; i < std::min(channels.size(), kMaxChannels); ++i) {
    const std::string field = fmt::format("channels[{}]", i);
    problems.Require(
        v1::RenderChannel_IsValid(channels[i]) && channels[i] != v1::RENDER_CHANNEL_UNSPECIFIED,
        field, "must be RGB, RGBA, RGBAZ, DEPTH or OPACITY");
    problems.Require(seen.insert(channels[i]).second, field, "is asked for twice");
    problems.Require(channels[i] != v1::RGBAZ || format == v1::EXR, field,
                     "RGBAZ needs the format EXR");
  }
  return problems;
}

Problems ProblemsOfSize(uint32_t width, uint32_t height) {
  Problems problems;
  CheckSide("width", width, problems);
  CheckSide("height", height, problems);
  problems.Require(int64_t{width} * height <= kMaxViewPixels, "width",
                   fmt::format("width times height must be at most {}", kMaxViewPixels));
  return problems;
}

Problems ProblemsOf(const v1::RenderImageRequest& request) {
  Problems problems;
  problems.Require(request.has_camera() != request.has_orbit(), "camera",
                   "exactly one of camera and orbit must be given");
  if (request.has_camera()) problems.Add(ProblemsOf(request.camera()), "camera");
  if (request.has_orbit()) {
    const v1::OrbitView& orbit = request.orbit();
    problems.Require(orbit.count() >= 1 && orbit.count() <= uint32_t{kMaxOrbitViews}, "orbit.count",
                     fmt::format("must be 1 to {}", kMaxOrbitViews));
    problems.Require(orbit.index() < std::max(orbit.count(), 1u), "orbit.index",
                     "must be below count");
    problems.Require(v1::PathKind_IsValid(orbit.path()), "orbit.path",
                     "is not a path known to this version");
  }
  problems.Require(request.width() <= kMaxViewSide, "width",
                   fmt::format("must be at most {}", kMaxViewSide));
  problems.Require(request.height() <= kMaxViewSide, "height",
                   fmt::format("must be at most {}", kMaxViewSide));
  if (!request.style().has_panorama()) CheckViewSize(request, problems);
  CheckStyle(request.style(), {request.width(), request.height()}, problems);
  problems.Add(ProblemsOfChannels(request.channels(), request.format()));
  problems.Require(v1::ImageFormat_IsValid(request.format()), "format",
                   "is not a format known to this version");
  const int n_checked =
      request.format() == v1::JPEG ? std::min(request.channels_size(), kMaxChannels) : 0;
  for (int i = 0; i < n_checked; ++i) {
    const v1::RenderChannel channel = request.channels(i);
    const std::string field = fmt::format("channels[{}]", i);
    problems.Require(channel != v1::DEPTH, field, "DEPTH has 16 bits, which JPEG cannot hold");
    problems.Require(channel != v1::RGBA, field, "RGBA has alpha, which JPEG cannot hold");
  }
  return problems;
}

Problems ProblemsOf(const v1::RenderSpec& spec) {
  Problems problems;
  problems.Add(ProblemsOf(spec.path()), "path");
  problems.Add(ProblemsOfSize(spec.width(), spec.height()));
  problems.Add(ProblemsOfChannels(spec.channels(), spec.format()));
  CheckStyle(spec.style(), {spec.width(), spec.height()}, problems);
  const bool has_alpha = !spec.channels().empty() && spec.channels(0) == v1::RGBA;
  problems.Require(!spec.movie() || !spec.style().has_panorama() || !has_alpha, "movie",
                   "of a panorama has no alpha: its WebM could not say what it is");
  problems.Require(spec.images() || spec.movie(), "images",
                   "must be set when movie is not: nothing else is asked for");
  problems.Require(spec.fps() == 0 || (spec.fps() > 0 && spec.fps() <= kMaxMovieFps), "fps",
                   fmt::format("must be above 0 and at most {}", kMaxMovieFps));
  const v1::ImageFormat format = spec.format();
  problems.Require(format == v1::IMAGE_FORMAT_UNSPECIFIED || format == v1::PNG || format == v1::EXR,
                   "format", "must be PNG or EXR");
  problems.Require(!spec.movie() || format != v1::EXR, "movie",
                   "is made of frames as PNG, not of EXR");
  return problems;
}

v1::RenderSpec WithDefaults(v1::RenderSpec spec) {
  spec.DiscardUnknownFields();
  if (spec.channels().empty()) spec.add_channels(v1::RGB);
  if (spec.fps() == 0) spec.set_fps(kDefaultMovieFps);
  return spec;
}

}  // namespace nerf
