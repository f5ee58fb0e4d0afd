#include "engine/scene/read/colmap_reader.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/counted.h"
#include "common/first_names.h"
#include "engine/base/picture_names.h"
#include "engine/scene/read/colmap_folders.h"
#include "engine/scene/read/colmap_model.h"
#include "engine/scene/read/colmap_points.h"
#include "engine/scene/read/listed_names.h"

namespace nerf {
namespace {

constexpr double kMaxColmapSide = 65536;
// Ids of camera models.
constexpr int kPinholeId = 1, kOpenCvId = 4, kFisheyeId = 5, kFullOpenCvId = 6;
constexpr int kFieldOfViewId = 7, kThinPrismId = 10;
constexpr uint64_t kMaxPointBytes = uint64_t{1} << 30;

// The parameters behind focal lengths and center, in COLMAP's order. Those of the fisheye models
// with fewer of them come first in OPENCV_FISHEYE.
void SetDistortion(const std::vector<double>& params, int id, size_t first,
                   Intrinsics* intrinsics) {
  const auto set = [&](std::initializer_list<double*> targets) {
    size_t i = first;
    for (double* target : targets) *target = params[i++];
  };
  Intrinsics& to = *intrinsics;
  if (id > kFullOpenCvId || id == kFisheyeId) to.lens = LensModel::kFisheye;
  if (id == kFieldOfViewId) to.lens = LensModel::kFieldOfView;
  if (id == kThinPrismId) to.lens = LensModel::kThinPrismFisheye;
  const size_t n = params.size() - first;
  if (id == kOpenCvId) {
    set({&to.k1, &to.k2, &to.p1, &to.p2});
  } else if (id == kFullOpenCvId) {
    set({&to.k1, &to.k2, &to.p1, &to.p2, &to.k3, &to.k4, &to.k5, &to.k6});
  } else if (id == kFisheyeId) {
    set({&to.k1, &to.k2, &to.k3, &to.k4});
  } else if (id == kThinPrismId) {
    set({&to.k1, &to.k2, &to.p1, &to.p2, &to.k3, &to.k4, &to.k5, &to.k6});
  } else if (n == 2) {
    set({&to.k1, &to.k2});
  } else if (n == 1) {
    set({&to.k1});
  }
}

Intrinsics IntrinsicsOf(const ColmapCamera& camera, const std::string& cameras_file,
                        Problems* problems) {
  Intrinsics intrinsics;
  intrinsics.model = camera.model->name;
  intrinsics.size_field = intrinsics.distortion_field = camera.field;
  for (std::string& field : intrinsics.focal_field) field = camera.field;
  for (std::string& field : intrinsics.center_field) field = camera.field;
  const auto broken = [&](const std::string& message) {
    problems->Add(cameras_file, camera.field, message);
    intrinsics.is_broken = true;
    return intrinsics;
  };
  if (!camera.model->is_supported) {
    return broken(
        absl::StrCat("camera model ", camera.model->name,
                     " is not supported: COLMAP's image_undistorter makes a PINHOLE model "
                     "and pictures to match"));
  }
  if (camera.width == 0 || camera.height == 0 || camera.width > kMaxColmapSide ||
      camera.height > kMaxColmapSide) {
    return broken(absl::StrCat("picture of ", camera.width, "x", camera.height,
                               " pixels; sides from 1 to 65536 are read"));
  }
  for (const double param : camera.params) {
    if (!std::isfinite(param)) return broken("a parameter is not a finite number");
  }
  intrinsics.width = static_cast<double>(camera.width);
  intrinsics.height = static_cast<double>(camera.height);
  if (camera.model->id == kEquirectangularId) {
    intrinsics.lens = LensModel::kEquirectangular;
    return intrinsics;
  }
  const std::vector<double>& params = camera.params;
  const int id = camera.model->id;
  const bool has_two_focals =
      id == kPinholeId || (id >= kOpenCvId && id <= kFieldOfViewId) || id == kThinPrismId;
  const size_t center = has_two_focals ? 2 : 1;
  intrinsics.focal[0] = params[0];
  intrinsics.focal[1] = params[has_two_focals ? 1 : 0];
  if (!(*intrinsics.focal[0] > 0) || !(*intrinsics.focal[1] > 0)) {
    return broken(absl::StrFormat("focal length %g must be greater than 0",
                                  std::min(*intrinsics.focal[0], *intrinsics.focal[1])));
  }
  intrinsics.cx = params[center];
  intrinsics.cy = params[center + 1];
  for (size_t i = center + 2; i < params.size(); ++i) {
    if (std::abs(params[i]) <= kMaxDistortion) continue;
    return broken(
        absl::StrFormat("distortion %g is absurd; up to %g is read", params[i], kMaxDistortion));
  }
  if (id == kFieldOfViewId && !(std::abs(params[center + 2]) < 3.1)) {
    return broken(
        absl::StrFormat("field of view %g must be less than 3.1 radians", params[center + 2]));
  }
  SetDistortion(params, id, center + 2, &intrinsics);
  return intrinsics;
}

// Converts the world-to-camera quaternion and translation to OpenGL camera-to-world. False if they
// are not a pose.
bool ToOpenGlPose(const ColmapImage& image, Pose* pose) {
  double norm = 0;
  for (const double q : image.rotation) norm += q * q;
  norm = std::sqrt(norm);
  bool is_good = std::isfinite(norm) && norm > 1e-6;
  for (const double t : image.translation) is_good = is_good && std::abs(t) <= 1e9;
  if (!is_good) return false;
  const double w = image.rotation[0] / norm, x = image.rotation[1] / norm;
  const double y = image.rotation[2] / norm, z = image.rotation[3] / norm;
  const double rotation[3][3] = {
      {1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)},
      {2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)},
      {2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)}};
  for (int i = 0; i < 3; ++i) {
    pose->m[i][3] = 0;
    for (int j = 0; j < 3; ++j) {
      // Transposed; columns 1 and 2 negated, because COLMAP's cameras have y down and look along
      // +z.
      pose->m[i][j] = j == 0 ? rotation[j][i] : -rotation[j][i];
      pose->m[i][3] -= rotation[j][i] * image.translation[j];
    }
  }
  return true;
}

// Positions of points by their ids, sorted.
using PointPositions = std::vector<std::pair<uint64_t, Vec3d>>;

// The points of the model, where there are any that can be read: the scene is placed by them.
PointPositions ReadPoints(const SceneFolder& folder, const std::string& file, bool is_binary,
                          ListedViews* listed) {
  PointPositions positions;
  const absl::StatusOr<std::string> found = folder.FindFile(file);
  if (!found.ok()) return positions;
  const absl::StatusOr<std::string> bytes = ReadRegularFile(folder.PathOf(*found), kMaxPointBytes);
  absl::StatusOr<std::vector<ColmapPoint>> points = !bytes.ok() ? bytes.status()
                                                    : is_binary ? ParseColmapPoints(*bytes)
                                                                : ParseColmapPointsText(*bytes);
  if (!points.ok()) {
    listed->warnings.push_back(absl::StrCat(file, " is not used: ", points.status().message()));
    return positions;
  }
  listed->files.push_back(file);
  for (ColmapPoint& point : *points) {
    const auto n_views = static_cast<uint32_t>(point.images.size());
    positions.emplace_back(point.id, point.position);
    listed->points.push_back({point.position, n_views, std::move(point.images)});
  }
  std::sort(positions.begin(), positions.end());
  return positions;
}

// Which of the points the picture shows, and where.
std::vector<PointInPicture> SeenPoints(const ColmapImage& image, const PointPositions& points) {
  std::vector<PointInPicture> seen;
  for (const ColmapObservation& observation : image.observations) {
    const auto point = std::lower_bound(
        points.begin(), points.end(), observation.point,
        [](const PointPositions::value_type& p, uint64_t id) { return p.first < id; });
    if (point != points.end() && point->first == observation.point)
      seen.push_back({point->second, observation.x, observation.y});
  }
  return seen;
}

// A model, and where its photographs are.
struct FoundModel {
  ColmapFiles files;
  ColmapModel model;
  std::string pictures;
  size_t n_present = 0;  // photographs
  Problems problems;
};

// The model of which most photographs are there; of several the one that lists most, then the
// first. Requires: there is a model.
FoundModel LargestModel(const SceneFolder& folder, ListedViews* listed) {
  std::vector<FoundModel> models;
  for (ColmapFiles& files : FindColmapModels(folder)) {
    FoundModel found{std::move(files), {}, "", 0, {}};
    found.model = ReadColmapModel(folder, found.files.cameras, found.files.images,
                                  found.files.is_binary, &found.problems);
    found.pictures = FindColmapPictures(folder, found.files, found.model, &found.n_present);
    models.push_back(std::move(found));
  }
  const auto largest =
      std::max_element(models.begin(), models.end(), [](const FoundModel& a, const FoundModel& b) {
        return std::pair(a.n_present, a.model.images.size()) <
               std::pair(b.n_present, b.model.images.size());
      });
  std::vector<std::string> others;
  for (auto it = models.begin(); it != models.end(); ++it) {
    if (it == largest) continue;
    others.push_back(absl::StrCat(it->files.folder.empty() ? "the folder itself" : it->files.folder,
                                  " (", it->model.images.size(), ")"));
  }
  if (!others.empty()) {
    listed->warnings.push_back(
        absl::StrCat(largest->files.source(), " is used, of ", largest->model.images.size(),
                     " images; other COLMAP models are there and are not: ", FirstNames(others)));
  }
  return *std::move(largest);
}

// Pictures in the folder that are none of the model's.
int CountUnposed(const SceneFolder& folder, const ListedViews& listed) {
  int n = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder.PathOf(listed.picture_folder), error), end;
       !error && it != end; it.increment(error)) {
    n += HasPhotographEnding(it->path().filename().string());
  }
  return std::max(0, n - (listed.n_listed - listed.n_missing));
}

// Makes the views of a model.
class ModelViews {
 public:
  ModelViews(const SceneFolder& folder, const FoundModel& found, const PointPositions& points,
             Problems* problems, ListedViews* listed)
      : folder_(folder), found_(found), points_(points), problems_(problems), listed_(*listed) {}

  void Read() {
    const std::vector<ColmapImage>& images = found_.model.images;
    std::vector<std::string> names;
    for (const ColmapImage& image : images) {
      // Made relative to the pictures' folder, an absolute name would be one of a file in it.
      const bool is_absolute = absl::StartsWith(image.name, "/") ||
                               absl::StartsWith(image.name, "\\") || image.name.empty();
      names.push_back(is_absolute || found_.pictures.empty()
                          ? image.name
                          : absl::StrCat(found_.pictures, "/", image.name));
    }
    const FoundFiles files = FindListedNames(folder_, names);
    listed_.is_reduced = files.is_reduced;
    if (std::string warning = OtherNamesWarning(files, "pictures"); !warning.empty())
      listed_.warnings.push_back(std::move(warning));
    if (!files.conflict.empty()) Problem(images[files.first_conflict], files.conflict);
    listed_.n_listed = static_cast<int>(images.size());
    for (size_t i = 0; i < images.size(); ++i) ReadImage(images[i], names[i], files.files[i]);
    if (n_repeated_ > 0) {
      listed_.warnings.push_back(
          absl::StrCat(found_.files.images, ": left out ",
                       Counted(static_cast<size_t>(n_repeated_), "repetition"),
                       " of images that are listed already, e.g. ", first_repeated_));
    }
  }

 private:
  void Problem(const ColmapImage& image, std::string_view message) {
    problems_->Add(found_.files.images, image.field, message);
  }

  // Nullptr after adding a problem.
  const Intrinsics* IntrinsicsOfImage(const ColmapImage& image) {
    const auto camera = found_.model.cameras.find(image.camera_id);
    if (camera == found_.model.cameras.end()) {
      Problem(image,
              absl::StrCat("camera id ", image.camera_id, " is not in ", found_.files.cameras));
      return nullptr;
    }
    auto known = intrinsics_.find(image.camera_id);
    if (known == intrinsics_.end()) {
      known = intrinsics_
                  .emplace(image.camera_id,
                           IntrinsicsOf(camera->second, found_.files.cameras, problems_))
                  .first;
    }
    return &known->second;
  }

  void ReadImage(const ColmapImage& image, const std::string& name,
                 const absl::StatusOr<std::string>& file) {
    ListedView view;
    view.list_file = found_.files.cameras;
    view.pose_file = found_.files.images;
    view.field = image.field;
    view.id = image.id;
    view.seen_points = SeenPoints(image, points_);
    const Intrinsics* intrinsics = IntrinsicsOfImage(image);
    const bool has_pose = ToOpenGlPose(image, &view.pose);
    if (!has_pose)
      Problem(image,
              "the pose is not a rotation and a translation (zero, not finite or beyond 1e9): "
              "remove the image, or register it again");
    if (absl::IsFailedPrecondition(file.status())) return;  // said for all of them at once
    if (absl::IsNotFound(file.status())) {
      if (listed_.n_missing++ == 0) listed_.first_missing = name;
      return;
    }
    if (!file.ok()) {
      return Problem(image, image.name.empty() ? "the image has no name"
                                               : std::string(file.status().message()));
    }
    view.file = *file;
    const bool is_good = intrinsics != nullptr && has_pose;
    if (is_good) view.intrinsics = *intrinsics;
    const auto [first, is_new] = seen_.emplace(*file, Seen{image.field, view});
    if (is_new) {
      if (is_good) listed_.views.push_back(std::move(view));
      return;
    }
    if (is_good && IsSameView(view, first->second.view)) {
      --listed_.n_listed;
      if (n_repeated_++ == 0) first_repeated_ = image.field;
      return;
    }
    Problem(image, absl::StrCat(Printable(*file), " is listed twice, first in ",
                                first->second.field, ", with another pose or camera"));
  }

  // Where a picture was listed first.
  struct Seen {
    std::string field;
    ListedView view;
  };

  const SceneFolder& folder_;
  const FoundModel& found_;
  const PointPositions& points_;
  Problems* problems_;
  ListedViews& listed_;
  std::map<uint32_t, Intrinsics> intrinsics_;
  std::map<std::string, Seen> seen_;
  int n_repeated_ = 0;
  std::string first_repeated_;
};

}  // namespace

bool HasColmapModel(const SceneFolder& folder) { return !FindColmapModels(folder).empty(); }

ListedViews ReadColmap(const SceneFolder& folder, Problems* problems) {
  ListedViews listed;
  listed.flavor = SceneFlavor::kColmap;
  FoundModel found = LargestModel(folder, &listed);
  problems->Add(found.problems);
  listed.source = found.files.source();
  listed.files = {found.files.cameras, found.files.images};
  listed.picture_folder = found.pictures;
  const PointPositions points =
      ReadPoints(folder, found.files.points, found.files.is_binary, &listed);
  ModelViews(folder, found, points, problems, &listed).Read();
  listed.n_unposed = CountUnposed(folder, listed);
  return listed;
}

}  // namespace nerf
