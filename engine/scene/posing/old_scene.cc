#include "engine/scene/posing/old_scene.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/files/atomic_file.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "engine/scene/pictures/exif.h"
#include "engine/scene/pictures/image_io.h"
#include "engine/scene/posing/photographs/photo_measures.h"
#include "engine/scene/posing/work_folder.h"
#include "engine/scene/read/placement_file.h"
#include "engine/scene/read/scene_reader.h"
#include "engine/scene/read/transforms_json.h"
#include "nlohmann/json.hpp"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr int kMeasuredSide = 800;  // as PreparePhotos
constexpr int kCopyQuality = 95;
constexpr uint64_t kMaxListBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxPictureBytes = uint64_t{512} << 20;

// The pose in COLMAP's axes, from an OpenGL one.
PosedPhoto FromOpenGl(const Pose& pose) {
  PosedPhoto photo;
  for (size_t i = 0; i < 3; ++i) {
    photo.center[i] = pose.m[i][3];
    photo.axes[0][i] = pose.m[i][0];
    photo.axes[1][i] = -pose.m[i][1];
    photo.axes[2][i] = -pose.m[i][2];
  }
  return photo;
}

absl::StatusOr<KnownLens> LensForColmap(const Camera& c) {
  const auto lens = [&](const char* model, std::initializer_list<float> distortion) {
    KnownLens known{model, absl::StrFormat("%.9g,%.9g,%.9g,%.9g", c.fl_x, c.fl_y, c.cx, c.cy)};
    for (const float d : distortion) absl::StrAppendFormat(&known.params, ",%.9g", d);
    return known;
  };
  switch (c.lens) {
    case LensModel::kPinhole:
      return lens("PINHOLE", {});
    case LensModel::kOpenCv:
      if (c.k3 == 0 && c.k4 == 0 && c.k5 == 0 && c.k6 == 0)
        return lens("OPENCV", {c.k1, c.k2, c.p1, c.p2});
      return lens("FULL_OPENCV", {c.k1, c.k2, c.p1, c.p2, c.k3, c.k4, c.k5, c.k6});
    case LensModel::kFisheye:
      return lens("OPENCV_FISHEYE", {c.k1, c.k2, c.k3, c.k4});
    case LensModel::kThinPrismFisheye:
      return lens("THIN_PRISM_FISHEYE", {c.k1, c.k2, c.p1, c.p2, c.k3, c.k4, c.k5, c.k6});
    case LensModel::kFieldOfView:
      return lens("FOV", {c.k1});
    case LensModel::kEquirectangular:
      break;
  }
  return absl::InvalidArgumentError(
      "is of panoramas, which photographs cannot be added to: pose all of them together");
}

// Errors: InvalidArgument of a lens that COLMAP throws out of a model, or dies of: its own bounds.
absl::Status CheckLensForColmap(const Camera& c) {
  const auto check = [&](const char* field, float value, double low, double high) -> absl::Status {
    if (value >= low && value <= high) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s is %.6g, and photographs can be added to pictures of %dx%d where it is %.6g to %.6g",
        field, value, c.width, c.height, low, high));
  };
  const double side = std::max(c.width, c.height);
  for (const auto& [field, value] : {std::pair("fl_x", c.fl_x), std::pair("fl_y", c.fl_y)})
    NERF_RETURN_IF_ERROR(check(field, value, 0.1 * side, 10 * side));
  NERF_RETURN_IF_ERROR(check("cx", c.cx, 0, c.width));
  NERF_RETURN_IF_ERROR(check("cy", c.cy, 0, c.height));
  // Quotients of polynomials and fisheyes have larger ones.
  const bool is_plain =
      c.lens == LensModel::kOpenCv && c.k3 == 0 && c.k4 == 0 && c.k5 == 0 && c.k6 == 0;
  const double most = is_plain ? 1 : kMaxExtraParam;
  for (const auto& [field, value] :
       {std::pair("k1", c.k1), std::pair("k2", c.k2), std::pair("k3", c.k3), std::pair("k4", c.k4),
        std::pair("k5", c.k5), std::pair("k6", c.k6), std::pair("p1", c.p1), std::pair("p2", c.p2)})
    NERF_RETURN_IF_ERROR(check(field, value, -most, most));
  return absl::OkStatus();
}

// Reads a picture, measures it and writes its copy.
absl::Status CopyOne(const std::string& path, const std::string& copies, Photo* photo) {
  NERF_ASSIGN_OR_RETURN(const std::string bytes, ReadRegularFile(path, kMaxPictureBytes));
  NERF_ASSIGN_OR_RETURN(const ImageHeader header, ParseImageHeader(bytes));
  NERF_ASSIGN_OR_RETURN(ImageU8 image, DecodeImageBytes(bytes));
  photo->width = image.width;
  photo->height = image.height;
  photo->fingerprint = Fingerprint(ReducedGray(image, kMeasuredSide));
  const bool is_jpeg = header.format == ImageFormat::kJpeg;
  photo->exif = ParseExif(is_jpeg ? FindExif(bytes) : FindExifAnywhere(bytes));
  if (is_jpeg || header.format == ImageFormat::kPng) {
    photo->file += is_jpeg ? ".jpg" : ".png";
    return WriteFileAtomically(absl::StrCat(copies, "/", photo->file), bytes);
  }
  photo->file += ".jpg";
  if (image.n_channels == 4) image = WithoutAlphaChannel(image);
  NERF_ASSIGN_OR_RETURN(const std::string jpeg, EncodeJpeg(image, kCopyQuality));
  return WriteFileAtomically(absl::StrCat(copies, "/", photo->file), jpeg);
}

// Sets what is in the list files.
absl::Status ReadLists(const std::string& folder, OldScene* scene) {
  const SceneDescription& description = scene->description;
  const auto listed = [&](std::string_view file) {
    const auto& files = description.list_files;
    return std::find(files.begin(), files.end(), file) != files.end();
  };
  for (const char* file : {"transforms.json", "transforms_train.json"}) {
    if (scene->list_file.empty() && listed(file)) scene->list_file = file;
  }
  if (!scene->list_file.empty()) return absl::OkStatus();
  scene->is_colmap = description.geometry.flavor == SceneFlavor::kColmap &&
                     absl::StrContains(description.list_files[0], "cameras.");
  if (!scene->is_colmap) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": photographs cannot be added to ", description.source,
                     "; a transforms.json or a model of COLMAP is needed"));
  }
  scene->list_file = fs::path(description.list_files[0]).parent_path().string();
  const std::string model = folder + "/" + scene->list_file;
  NERF_ASSIGN_OR_RETURN(scene->model, ReadModelFiles(model));
  const absl::StatusOr<PosedModel> posed = ReadPosedModel(model);
  if (posed.ok()) scene->points = posed->points;
  // The folder that the model's names are in.
  for (const ColmapImage& image : scene->model.images) {
    const std::string& file = scene->views[0].file;
    if (!absl::EndsWith(file, image.name)) continue;
    scene->pictures = file.substr(0, file.size() - image.name.size());
    while (absl::EndsWith(scene->pictures, "/")) scene->pictures.pop_back();
    break;
  }
  return absl::OkStatus();
}

// The keys of a frame or file that describe its lens.
constexpr const char* kLensKeys[] = {"camera_model",
                                     "w",
                                     "h",
                                     "fl_x",
                                     "fl_y",
                                     "cx",
                                     "cy",
                                     "k1",
                                     "k2",
                                     "k3",
                                     "k4",
                                     "k5",
                                     "k6",
                                     "p1",
                                     "p2",
                                     "x_fov",
                                     "y_fov",
                                     "camera_angle_x",
                                     "camera_angle_y",
                                     "distortion_params",
                                     "is_fisheye",
                                     "equirectangular"};

// The intrinsics of a lens that COLMAP found (SIMPLE_RADIAL or OPENCV).
void AddLens(const ColmapCamera& camera, nlohmann::json* frame) {
  const std::vector<double>& p = camera.params;
  (*frame)["w"] = camera.width;
  (*frame)["h"] = camera.height;
  (*frame)["camera_model"] = camera.model->name;
  const bool has_two = p.size() >= 8;
  const size_t center = has_two ? 2 : 1;
  (*frame)["fl_x"] = p[0];
  (*frame)["fl_y"] = p[has_two ? 1 : 0];
  (*frame)["cx"] = p[center];
  (*frame)["cy"] = p[center + 1];
  for (const char* key : {"k1", "k2", "p1", "p2"}) (*frame)[key] = 0.0;
  (*frame)["k1"] = p[center + 2];
  if (!has_two) return;
  (*frame)["k2"] = p[5];
  (*frame)["p1"] = p[6];
  (*frame)["p2"] = p[7];
}

absl::Status WriteTransforms(const OldScene& scene, const std::string& folder,
                             const std::vector<AddedPhoto>& added, const std::string& out) {
  NERF_ASSIGN_OR_RETURN(const std::string text,
                        ReadRegularFile(folder + "/" + scene.list_file, kMaxJsonBytes));
  nlohmann::json json = nlohmann::json::parse(text, nullptr, false, /*ignore_comments=*/true);
  if (!json.is_object() || !json["frames"].is_array()) {
    return absl::InvalidArgumentError(
        scene.list_file + ": frames cannot be added: it holds NaN or another text that is no JSON");
  }
  // By lens the frame that has it.
  std::vector<nlohmann::json> frame_of(scene.lenses.size());
  for (const nlohmann::json& frame : json["frames"]) {
    if (!frame.is_object()) continue;
    const std::string path = frame.value("file_path", "");
    for (const OldView& view : scene.views) {
      const fs::path file = view.file;
      if (fs::path(path).lexically_normal() == file ||
          fs::path(path).lexically_normal() == fs::path(file).replace_extension()) {
        frame_of[static_cast<size_t>(view.photo.lens)] = frame;
      }
    }
  }
  for (const AddedPhoto& photo : added) {
    nlohmann::json frame;
    frame["file_path"] = absl::StrCat(scene.pictures, "/", photo.file);
    nlohmann::json rows = nlohmann::json::array();
    for (size_t i = 0; i < 3; ++i) {
      rows.push_back({photo.pose.axes[0][i], -photo.pose.axes[1][i], -photo.pose.axes[2][i],
                      photo.pose.center[i]});
    }
    rows.push_back({0.0, 0.0, 0.0, 1.0});
    frame["transform_matrix"] = rows;
    if (photo.old_lens < 0 && scene.description.geometry.flavor == SceneFlavor::kBlender) {
      return absl::InvalidArgumentError(
          absl::StrCat(Printable(photo.file), " was taken through another lens, which ",
                       scene.list_file, " cannot say in Blender's layout: leave it out"));
    }
    if (photo.old_lens < 0) {
      AddLens(photo.camera, &frame);
    } else {
      const nlohmann::json& like = frame_of[static_cast<size_t>(photo.old_lens)];
      for (const char* key : kLensKeys) {
        if (like.is_object() && like.contains(key)) frame[key] = like[key];
      }
    }
    if (json.contains("train_filenames") && json["train_filenames"].is_array())
      json["train_filenames"].push_back(frame["file_path"]);
    json["frames"].push_back(std::move(frame));
  }
  return WriteFileAtomically(out + "/" + scene.list_file, json.dump(1) + "\n");
}

absl::Status WriteModel(const OldScene& scene, const std::vector<AddedPhoto>& added,
                        const std::vector<ColmapPoint>& points, const std::string& out) {
  ColmapModel model = scene.model;
  uint32_t next_image = 1, next_camera = 1;
  std::map<std::string, const ColmapImage*> by_name;
  for (const ColmapImage& image : scene.model.images) {
    next_image = std::max(next_image, image.id + 1);
    by_name[image.name] = &image;
  }
  for (const auto& [id, camera] : model.cameras) next_camera = std::max(next_camera, id + 1);
  // The model's image of a view.
  const auto image_of = [&](const OldView& view) {
    const std::string name = scene.pictures.empty() ? view.file
                             : view.file.size() > scene.pictures.size()
                                 ? view.file.substr(scene.pictures.size() + 1)
                                 : "";
    const auto found = by_name.find(name);
    return found == by_name.end() ? nullptr : found->second;
  };
  std::vector<uint32_t> camera_of(scene.lenses.size(), 0);
  std::vector<uint32_t> ids;  // of the new photographs, then of the old views; 0: none
  for (size_t i = 0; i < added.size(); ++i) ids.push_back(next_image + static_cast<uint32_t>(i));
  for (const OldView& view : scene.views) {
    const ColmapImage* image = image_of(view);
    ids.push_back(image == nullptr ? 0 : image->id);
    if (image != nullptr) camera_of[static_cast<size_t>(view.photo.lens)] = image->camera_id;
  }
  std::map<std::pair<std::string, std::vector<double>>, uint32_t> new_cameras;
  for (size_t i = 0; i < added.size(); ++i) {
    const AddedPhoto& photo = added[i];
    uint32_t camera = photo.old_lens < 0 ? 0 : camera_of[static_cast<size_t>(photo.old_lens)];
    if (camera == 0) {
      const auto [known, is_new] = new_cameras.emplace(
          std::pair(photo.camera.model->name, photo.camera.params), next_camera);
      if (is_new) model.cameras[next_camera++] = photo.camera;
      camera = known->second;
    }
    model.images.push_back(ToColmapImage(photo.pose, ids[i], camera, photo.file));
  }
  std::vector<ColmapPoint> all = scene.points;
  for (ColmapPoint point : points) {
    for (uint32_t& image : point.images) image = ids[image];
    std::erase(point.images, 0u);
    all.push_back(std::move(point));
  }
  return WriteColmapText(out + "/" + scene.list_file, model, all);
}

}  // namespace

absl::StatusOr<OldScene> ReadOldScene(const std::string& folder, const std::string& copies,
                                      const PrepareOptions& options) {
  OldScene scene;
  SceneOptions reading;
  reading.decode_images = false;
  reading.pool = options.pool;
  reading.stop = options.stop;
  scene.description = DescribeScene(folder, reading);
  if (options.stop.stop_requested()) return absl::CancelledError("interrupted");
  if (!scene.description.ok()) {
    const absl::StatusOr<SceneFolder> there = SceneFolder::Open(folder);
    if (!there.ok()) return WithPrefix(there.status(), folder);
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": ", SummaryOf(scene.description.problems)));
  }
  const SceneFrame& frame = scene.description.geometry.frame;
  const Similarity to_own = Inverse(FromSceneFrame(frame));
  std::vector<std::string> texts;  // of lenses, with their pictures' sizes
  for (const auto* views : {&scene.description.train, &scene.description.test}) {
    for (const ViewDescription& view : *views) {
      OldView old;
      old.file = view.file;
      old.photo.name = Printable(view.file);
      old.photo.file = absl::StrFormat("o%06d", scene.views.size());
      old.pose = FromOpenGl(to_own.ApplyToPose(ToPose(view.camera.camera_to_world)));
      old.pose.center = Sum(old.pose.center, frame.origin);
      absl::StatusOr<KnownLens> lens = LensForColmap(view.camera);
      if (!lens.ok()) return WithPrefix(lens.status(), folder);
      const absl::Status taken = CheckLensForColmap(view.camera);
      if (!taken.ok()) return WithPrefix(WithPrefix(taken, old.photo.name), folder);
      const std::string text = absl::StrCat(view.camera.width, "x", view.camera.height, " ",
                                            lens->model, " ", lens->params);
      const auto found = std::find(texts.begin(), texts.end(), text);
      old.photo.lens = static_cast<int>(found - texts.begin());
      if (found == texts.end()) {
        texts.push_back(text);
        scene.lenses.push_back(*std::move(lens));
      }
      scene.views.push_back(std::move(old));
    }
  }
  NERF_RETURN_IF_ERROR(ReadLists(folder, &scene));
  Mutex mu;
  absl::Status first_error;
  size_t n_done = 0;
  const size_t n = scene.views.size();
  std::vector<std::string> paths;
  for (const OldView& view : scene.views) paths.push_back(folder + "/" + view.file);
  ForEachPicture(n, paths, options, [&](int64_t i, int thread) {
    if (options.stop.stop_requested()) return;
    OldView& view = scene.views[static_cast<size_t>(i)];
    absl::Status status = CopyOne(paths[static_cast<size_t>(i)], copies, &view.photo);
    size_t done = 0;
    {
      MutexLock lock(mu);
      if (!status.ok() && first_error.ok()) first_error = WithPrefix(status, view.photo.name);
      done = ++n_done;
    }
    if (thread == 0 && options.on_progress) options.on_progress(done, n);
  });
  if (options.stop.stop_requested()) return absl::CancelledError("interrupted");
  NERF_RETURN_IF_ERROR(first_error);
  return scene;
}

absl::Status WriteAddedScene(const OldScene& scene, const std::string& folder,
                             const std::vector<AddedPhoto>& added,
                             const std::vector<ColmapPoint>& points, const std::string& out) {
  std::set<std::string> files;
  for (const auto* views : {&scene.description.train, &scene.description.test}) {
    for (const ViewDescription& view : *views) {
      for (const std::string& file : {view.file, view.mask_file, view.depth.file}) {
        if (!file.empty()) files.insert(file);
      }
    }
  }
  if (!scene.is_colmap)
    files.insert(scene.description.list_files.begin(), scene.description.list_files.end());
  for (const std::string& file : files)
    NERF_RETURN_IF_ERROR(CopyFile(folder + "/" + file, out + "/" + file, kMaxListBytes));
  NERF_RETURN_IF_ERROR(
      WriteFileAtomically(out + "/" + kPlacementFile, PlacementText(scene.description.geometry)));
  return scene.is_colmap ? WriteModel(scene, added, points, out)
                         : WriteTransforms(scene, folder, added, out);
}

}  // namespace nerf
