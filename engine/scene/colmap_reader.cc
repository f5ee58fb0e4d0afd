#include "engine/scene/colmap_reader.h"

#include <dirent.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/scene/colmap_model.h"
#include "engine/scene/colmap_points.h"

namespace nerf {
namespace {

constexpr const char* kModelFolders[] = {"sparse/0", "sparse", "colmap/sparse/0"};
constexpr double kMaxColmapSide = 65536;
constexpr int kOpenCv = 4, kFisheye = 5, kFullOpenCv = 6;  // ids of camera models
constexpr uint64_t kMaxPointBytes = uint64_t{1} << 30;

Intrinsics IntrinsicsOf(const ColmapCamera& camera, const std::string& cameras_file,
                        std::vector<SceneProblem>* problems) {
  Intrinsics intrinsics;
  intrinsics.model = camera.model->name;
  intrinsics.size_field = camera.field;
  for (std::string& field : intrinsics.focal_field) field = camera.field;
  for (std::string& field : intrinsics.center_field) field = camera.field;
  const auto broken = [&](const std::string& message) {
    AddProblem(problems, cameras_file, camera.field, message);
    intrinsics.is_broken = true;
    return intrinsics;
  };
  if (!camera.model->is_supported) {
    return broken(absl::StrCat("camera model ", camera.model->name,
                               " is not supported; SIMPLE_PINHOLE, PINHOLE, SIMPLE_RADIAL, RADIAL, "
                               "OPENCV, FULL_OPENCV and OPENCV_FISHEYE are"));
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
  const std::vector<double>& params = camera.params;
  const int id = camera.model->id;
  const bool has_two_focals = id == 1 || id == kOpenCv || id == kFisheye || id == kFullOpenCv;
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
  if (id >= 2) intrinsics.k1 = params[center + 2];
  if (id >= 3) intrinsics.k2 = params[center + 3];
  if (id == kOpenCv || id == kFullOpenCv) {
    intrinsics.p1 = params[6];
    intrinsics.p2 = params[7];
  }
  if (id == kFullOpenCv) {
    intrinsics.k3 = params[8];
    intrinsics.k4 = params[9];
    intrinsics.k5 = params[10];
    intrinsics.k6 = params[11];
  }
  if (id == kFisheye) {
    intrinsics.lens = LensModel::kFisheye;
    intrinsics.k3 = params[6];
    intrinsics.k4 = params[7];
  }
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

std::string FindModelFolder(const SceneFolder& folder) {
  for (const char* name : kModelFolders) {
    for (const char* file : {"/cameras.bin", "/images.bin", "/cameras.txt", "/images.txt"}) {
      if (!absl::IsNotFound(folder.FindFile(absl::StrCat(name, file)).status())) return name;
    }
  }
  return "";
}

// Image files directly in images/.
int CountImageFiles(const SceneFolder& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(folder.PathOf("images").c_str()),
                                                      closedir);
  if (directory == nullptr) return 0;
  int n_images = 0;
  while (const dirent* entry = readdir(directory.get())) {
    const std::string name = absl::AsciiStrToLower(entry->d_name);
    const size_t dot = name.rfind('.');
    const std::string ending = dot == std::string::npos ? "" : name.substr(dot);
    if (ending == ".jpg" || ending == ".jpeg" || ending == ".png") ++n_images;
  }
  return n_images;
}

// The points of the model, where there are any that can be read: the scene is placed by them.
void ReadPoints(const SceneFolder& folder, const std::string& file, bool is_binary,
                ListedViews* listed) {
  const absl::StatusOr<std::string> found = folder.FindFile(file);
  if (!found.ok()) return;
  const absl::StatusOr<std::string> bytes = ReadRegularFile(folder.PathOf(*found), kMaxPointBytes);
  absl::StatusOr<std::vector<ColmapPoint>> points = !bytes.ok() ? bytes.status()
                                                    : is_binary ? ParseColmapPoints(*bytes)
                                                                : ParseColmapPointsText(*bytes);
  if (!points.ok()) {
    listed->warnings.push_back(absl::StrCat(file, " is not used: ", points.status().message()));
    return;
  }
  listed->files.push_back(file);
  for (ColmapPoint& point : *points) {
    const auto n_views = static_cast<uint32_t>(point.images.size());
    listed->points.push_back({point.position, n_views, std::move(point.images)});
  }
}

// The files of the model in `model_folder`: the binary ones if both are there, else the text.
struct ModelFiles {
  bool is_binary = false;
  std::string cameras, images, points;
};

ModelFiles FindModelFiles(const SceneFolder& folder, const std::string& model_folder) {
  const auto has = [&](const char* name) { return folder.HasFile(model_folder + name); };
  const bool has_text = has("/cameras.txt") && has("/images.txt");
  const bool has_cameras = has("/cameras.bin");
  const bool has_images = has("/images.bin");
  ModelFiles files;
  files.is_binary = (has_cameras && has_images) || ((has_cameras || has_images) && !has_text);
  const char* ending = files.is_binary ? ".bin" : ".txt";
  files.cameras = absl::StrCat(model_folder, "/cameras", ending);
  files.images = absl::StrCat(model_folder, "/images", ending);
  files.points = absl::StrCat(model_folder, "/points3D", ending);
  return files;
}

}  // namespace

bool HasColmapModel(const SceneFolder& folder) { return !FindModelFolder(folder).empty(); }

ListedViews ReadColmap(const SceneFolder& folder, std::vector<SceneProblem>* problems) {
  ListedViews listed;
  listed.flavor = SceneFlavor::kColmap;
  const std::string model_folder = FindModelFolder(folder);
  const ModelFiles files = FindModelFiles(folder, model_folder);
  const std::string& cameras_file = files.cameras;
  const std::string& images_file = files.images;
  listed.source = absl::StrCat(model_folder, files.is_binary ? " (binary)" : " (text)");
  listed.files = {cameras_file, images_file};
  const ColmapModel model =
      ReadColmapModel(folder, cameras_file, images_file, files.is_binary, problems);

  ReadPoints(folder, files.points, files.is_binary, &listed);

  std::map<uint32_t, Intrinsics> intrinsics;
  std::map<std::string, std::string> seen;  // image file to the entry that lists it
  listed.n_listed = static_cast<int>(model.images.size());
  for (const ColmapImage& image : model.images) {
    ListedView view;
    view.list_file = images_file;
    view.field = image.field;
    view.id = image.id;
    const auto camera = model.cameras.find(image.camera_id);
    if (camera == model.cameras.end()) {
      AddProblem(problems, images_file, image.field,
                 absl::StrCat("camera id ", image.camera_id, " is not in ", cameras_file));
    } else {
      auto known = intrinsics.find(image.camera_id);
      if (known == intrinsics.end()) {
        known = intrinsics
                    .emplace(image.camera_id, IntrinsicsOf(camera->second, cameras_file, problems))
                    .first;
      }
      view.intrinsics = known->second;
      view.list_file = cameras_file;
    }
    const bool has_pose = ToOpenGlPose(image, &view.pose);
    if (!has_pose) {
      AddProblem(problems, images_file, image.field,
                 "the pose is not a rotation and a translation (zero or not finite)");
    }
    // Checked before "images/" is prepended, which would make the name relative.
    if (!image.name.empty() && (image.name[0] == '/' || image.name[0] == '\\')) {
      AddProblem(problems, images_file, image.field,
                 absl::StrCat("\"", Printable(image.name),
                              "\" is absolute; names are relative to images/"));
      continue;
    }
    absl::StatusOr<std::string> file = image.name.empty()
                                           ? absl::InvalidArgumentError("the image has no name")
                                           : folder.FindFile(absl::StrCat("images/", image.name));
    if (absl::IsNotFound(file.status())) {
      if (listed.n_missing++ == 0) listed.first_missing = absl::StrCat("images/", image.name);
      continue;
    }
    if (!file.ok()) {
      AddProblem(problems, images_file, image.field, std::string(file.status().message()));
      continue;
    }
    const auto [first, is_new] = seen.emplace(*file, image.field);
    if (!is_new) {
      AddProblem(problems, images_file, image.field,
                 absl::StrCat(Printable(*file), " is listed twice, first in ", first->second));
      continue;
    }
    if (camera == model.cameras.end() || !has_pose) continue;
    view.file = *std::move(file);
    listed.views.push_back(std::move(view));
  }
  listed.n_unposed = std::max(0, CountImageFiles(folder) - (listed.n_listed - listed.n_missing));
  if (model_folder == "sparse/0" && folder.HasFolder("sparse/1")) {
    listed.warnings.push_back("sparse/1: COLMAP found more than one model; only sparse/0 is used");
  }
  return listed;
}

}  // namespace nerf
