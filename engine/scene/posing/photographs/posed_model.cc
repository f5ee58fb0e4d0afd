#include "engine/scene/posing/photographs/posed_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <span>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/files/atomic_file.h"
#include "common/files/file_io.h"
#include "common/status_macros.h"
#include "engine/base/principal_axes.h"
#include "engine/scene/files/scene_files.h"
#include "engine/scene/read/colmap_model.h"

namespace nerf {
namespace {

using Vector = std::array<double, 3>;

constexpr uint64_t kMaxPointBytes = uint64_t{4} << 30;
constexpr size_t kMaxParallaxPoints = 20'000;  // of a model; a median needs no more
constexpr size_t kMaxRays = 12;                // of a point

// Of the angle between two unit vectors.
double Cosine(const Vector& a, const Vector& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

std::string EndingIn(const std::string& folder) {
  std::error_code ignored;
  return std::filesystem::exists(folder + "/images.bin", ignored) ? ".bin" : ".txt";
}

double WidestAngle(const Vector& point, const std::vector<const PosedPhoto*>& photos) {
  double smallest_cosine = 1;
  std::vector<Vector> rays;
  const size_t stride = (photos.size() + kMaxRays - 1) / kMaxRays;
  for (size_t i = 0; i < photos.size(); i += std::max<size_t>(stride, 1)) {
    Vector ray;
    for (size_t k = 0; k < 3; ++k) ray[k] = point[k] - photos[i]->center[k];
    const double length = std::sqrt(Cosine(ray, ray));
    if (!(length > 0)) continue;
    for (double& r : ray) r /= length;
    for (const Vector& other : rays)
      smallest_cosine = std::min(smallest_cosine, Cosine(ray, other));
    rays.push_back(ray);
  }
  return std::acos(std::max(-1.0, smallest_cosine)) * 180 / M_PI;
}

}  // namespace

PosedPhoto ToPosedPhoto(const ColmapImage& image) {
  const double* q = image.rotation;
  const double norm = std::sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
  const double w = q[0] / norm, x = q[1] / norm, y = q[2] / norm, z = q[3] / norm;
  PosedPhoto photo;
  // Rows of world-to-camera are the camera's axes in the world.
  photo.axes = {{{1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)},
                 {2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)},
                 {2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)}}};
  for (size_t i = 0; i < 3; ++i) {
    for (size_t row = 0; row < 3; ++row) {
      photo.center[i] -= photo.axes[row][i] * image.translation[row];
    }
  }
  return photo;
}

ColmapImage ToColmapImage(const PosedPhoto& photo, uint32_t id, uint32_t camera_id,
                          const std::string& name) {
  ColmapImage image;
  image.id = id;
  image.camera_id = camera_id;
  image.name = name;
  const auto& m = photo.axes;
  // Of the four ways to the quaternion the one with the largest divisor.
  const double squares[] = {m[0][0] + m[1][1] + m[2][2], m[0][0] - m[1][1] - m[2][2],
                            m[1][1] - m[0][0] - m[2][2], m[2][2] - m[0][0] - m[1][1]};
  const size_t largest = static_cast<size_t>(
      std::max_element(std::begin(squares), std::end(squares)) - std::begin(squares));
  const double root = 2 * std::sqrt(1 + squares[largest]);
  const double differences[] = {m[2][1] - m[1][2], m[0][2] - m[2][0], m[1][0] - m[0][1]};
  if (largest == 0) {
    image.rotation[0] = root / 4;
    for (size_t i = 0; i < 3; ++i) image.rotation[i + 1] = differences[i] / root;
  } else {
    const size_t axis = largest - 1;
    image.rotation[0] = differences[axis] / root;
    for (size_t i = 0; i < 3; ++i)
      image.rotation[i + 1] = i == axis ? root / 4 : (m[axis][i] + m[i][axis]) / root;
  }
  for (size_t row = 0; row < 3; ++row) {
    image.translation[row] = 0;
    for (size_t i = 0; i < 3; ++i) image.translation[row] -= m[row][i] * photo.center[i];
  }
  return image;
}

absl::Status WriteColmapText(const std::string& folder, const ColmapModel& model,
                             const std::vector<ColmapPoint>& points) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return ErrnoToStatus(error.value(), absl::StrCat("cannot make ", folder));
  std::string cameras = "# CAMERA_ID MODEL WIDTH HEIGHT PARAMS\n";
  for (const auto& [id, camera] : model.cameras) {
    absl::StrAppend(&cameras, id, " ", camera.model->name, " ", camera.width, " ", camera.height);
    for (const double param : camera.params) absl::StrAppendFormat(&cameras, " %.17g", param);
    cameras += "\n";
  }
  std::string images = "# IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME, and a line of its points\n";
  for (const ColmapImage& image : model.images) {
    absl::StrAppend(&images, image.id);
    for (const double q : image.rotation) absl::StrAppendFormat(&images, " %.17g", q);
    for (const double t : image.translation) absl::StrAppendFormat(&images, " %.17g", t);
    absl::StrAppend(&images, " ", image.camera_id, " ", image.name, "\n\n");
  }
  std::string text = "# POINT3D_ID X Y Z R G B ERROR and the track: IMAGE_ID 0\n";
  for (size_t i = 0; i < points.size(); ++i) {
    absl::StrAppend(&text, i + 1);
    for (const double x : points[i].position) absl::StrAppendFormat(&text, " %.17g", x);
    for (const uint8_t c : points[i].color) absl::StrAppend(&text, " ", c);
    absl::StrAppendFormat(&text, " %g", points[i].error);
    for (const uint32_t image : points[i].images) absl::StrAppend(&text, " ", image, " 0");
    text += "\n";
  }
  NERF_RETURN_IF_ERROR(WriteFileAtomically(folder + "/cameras.txt", cameras));
  NERF_RETURN_IF_ERROR(WriteFileAtomically(folder + "/images.txt", images));
  return WriteFileAtomically(folder + "/points3D.txt", text);
}

absl::StatusOr<ColmapModel> ReadModelFiles(const std::string& folder) {
  NERF_ASSIGN_OR_RETURN(const SceneFolder files, SceneFolder::Open(folder));
  Problems problems;
  const std::string ending = EndingIn(folder);
  ColmapModel model =
      ReadColmapModel(files, "cameras" + ending, "images" + ending, ending == ".bin", &problems);
  if (!problems.empty()) return absl::DataLossError(SummaryOf(problems));
  return model;
}

absl::StatusOr<PosedModel> ReadPosedModel(const std::string& folder) {
  NERF_ASSIGN_OR_RETURN(const ColmapModel read, ReadModelFiles(folder));
  PosedModel model;
  std::map<uint32_t, PosedPhoto*> by_id;
  for (const ColmapImage& image : read.images) {
    const auto [found, is_new] = model.photos.emplace(image.name, ToPosedPhoto(image));
    if (is_new) by_id[image.id] = &found->second;
    for (const double c : found->second.center) {
      if (!std::isfinite(c)) return absl::DataLossError(image.name + ": a pose is not a number");
    }
  }
  for (const auto& [id, camera] : read.cameras) {
    std::string lens = absl::StrFormat("%s %dx%d", camera.model->name, camera.width, camera.height);
    if (!camera.params.empty())
      absl::StrAppendFormat(&lens, ", focal length %.0f pixels", camera.params[0]);
    model.lenses.push_back(std::move(lens));
  }
  NERF_ASSIGN_OR_RETURN(const std::string bytes,
                        ReadRegularFile(folder + "/points3D" + EndingIn(folder), kMaxPointBytes));
  NERF_ASSIGN_OR_RETURN(model.points, EndingIn(folder) == ".bin" ? ParseColmapPoints(bytes)
                                                                 : ParseColmapPointsText(bytes));
  std::vector<double> angles;
  const size_t stride = model.points.size() / kMaxParallaxPoints + 1;
  for (size_t i = 0; i < model.points.size(); ++i) {
    const ColmapPoint& point = model.points[i];
    model.reprojection_error += point.error / static_cast<double>(model.points.size());
    std::vector<const PosedPhoto*> seen_by;
    for (const uint32_t id : point.images) {
      const auto found = by_id.find(id);
      if (found == by_id.end()) continue;
      ++found->second->n_points;
      seen_by.push_back(found->second);
    }
    if (i % stride == 0) angles.push_back(WidestAngle(point.position, seen_by));
  }
  if (!angles.empty()) {
    const auto middle = angles.begin() + static_cast<int64_t>(angles.size() / 2);
    std::nth_element(angles.begin(), middle, angles.end());
    model.parallax_degrees = *middle;
  }
  return model;
}

std::vector<ModelSize> ModelsIn(const std::string& folder) {
  std::vector<ModelSize> models;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const absl::StatusOr<PosedModel> model = ReadPosedModel(entry.path().string());
    if (model.ok() && !model->photos.empty()) {
      models.push_back({entry.path().string(), model->photos.size()});
    }
  }
  std::sort(models.begin(), models.end(), [](const ModelSize& a, const ModelSize& b) {
    return a.n_photos != b.n_photos ? a.n_photos > b.n_photos : a.folder < b.folder;
  });
  return models;
}

std::array<double, 3> UpOf(const PosedModel& model) {
  Vector up{}, forward{};
  for (const auto& [name, photo] : model.photos) {
    for (size_t i = 0; i < 3; ++i) {
      up[i] -= photo.axes[1][i] / static_cast<double>(model.photos.size());
      forward[i] += photo.axes[2][i] / static_cast<double>(model.photos.size());
    }
  }
  constexpr double kOneWay = 0.9;  // length of the mean of unit vectors within about 25 degrees
  const double forward_length = std::sqrt(Cosine(forward, forward));
  std::vector<Vector> points;
  for (const ColmapPoint& point : model.points) points.push_back(point.position);
  const PrincipalAxes axes = PrincipalAxesOf(points);
  const bool looks_down = forward_length > kOneWay && points.size() > 10 &&
                          std::abs(Cosine(forward, axes.axes[2])) > kOneWay * forward_length &&
                          axes.variances[2] < 0.05 * axes.variances[1];
  if (looks_down) up = {-forward[0], -forward[1], -forward[2]};
  const double length = std::sqrt(Cosine(up, up));
  if (length < 0.1) return {0, 0, 0};
  for (double& u : up) u /= length;
  return up;
}

}  // namespace nerf
