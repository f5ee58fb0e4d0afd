#include "engine/scene/colmap_reader.h"

#include <dirent.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace nerf {
namespace {

static_assert(std::endian::native == std::endian::little, "COLMAP's binary files are read as is");

constexpr const char* kModelFolders[] = {"sparse/0", "sparse", "colmap/sparse/0"};
constexpr uint64_t kMaxModelBytes = uint64_t{4} << 30;
constexpr size_t kMaxImages = 100'000;
constexpr double kMaxSide = 65536;

struct CameraModel {
  int id;
  const char* name;
  int n_params;
  bool is_supported;
};
constexpr CameraModel kCameraModels[] = {
    {0, "SIMPLE_PINHOLE", 3, true},
    {1, "PINHOLE", 4, true},
    {2, "SIMPLE_RADIAL", 4, true},
    {3, "RADIAL", 5, true},
    {4, "OPENCV", 8, true},
    {5, "OPENCV_FISHEYE", 8, false},
    {6, "FULL_OPENCV", 12, false},
    {7, "FOV", 5, false},
    {8, "SIMPLE_RADIAL_FISHEYE", 4, false},
    {9, "RADIAL_FISHEYE", 5, false},
    {10, "THIN_PRISM_FISHEYE", 12, false},
    {11, "RAD_TAN_THIN_PRISM_FISHEYE", 16, false},
};

struct ColmapCamera {
  const CameraModel* model = nullptr;
  uint64_t width = 0, height = 0;
  std::vector<double> params;
  std::string field;  // "camera 3" or "line 4"
};

struct ColmapImage {
  double rotation[4];  // w, x, y, z of world-to-camera
  double translation[3];
  uint32_t camera_id = 0;
  std::string name;
  std::string field;
};

struct ColmapModel {
  std::map<uint32_t, ColmapCamera> cameras;
  std::vector<ColmapImage> images;
};

// Bounds-checked reads of little-endian values.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  bool Read(T* value) {
    if (remaining() < sizeof(T)) return false;
    std::memcpy(value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return true;
  }
  bool ReadDoubles(double* values, size_t n) {
    if (remaining() / sizeof(double) < n) return false;
    std::memcpy(values, bytes_.data() + position_, n * sizeof(double));
    position_ += n * sizeof(double);
    return true;
  }
  bool ReadName(std::string* name) {
    const size_t end = bytes_.find('\0', position_);
    if (end == std::string_view::npos) return false;
    *name = bytes_.substr(position_, end - position_);
    position_ = end + 1;
    return true;
  }
  bool Skip(uint64_t n_items, uint64_t item_bytes) {
    if (n_items > remaining() / item_bytes) return false;
    position_ += n_items * item_bytes;
    return true;
  }
  size_t remaining() const { return bytes_.size() - position_; }
  size_t position() const { return position_; }

 private:
  std::string_view bytes_;
  size_t position_ = 0;
};

// Reads the two files of one model; reports to problems.
class ModelReader {
 public:
  ModelReader(const SceneFolder& folder, std::vector<SceneProblem>* problems)
      : folder_(folder), problems_(problems) {}

  ColmapModel Read(const std::string& cameras_file, const std::string& images_file,
                   bool is_binary) {
    std::string bytes;
    if (Load(cameras_file, &bytes)) {
      is_binary ? ReadBinaryCameras(bytes) : ReadTextCameras(bytes);
    }
    if (Load(images_file, &bytes)) {
      is_binary ? ReadBinaryImages(bytes) : ReadTextImages(bytes);
      if (model_.images.empty() && !has_image_problems_) {
        Problem("", "no image is posed: the model is empty");
      }
    }
    return std::move(model_);
  }

 private:
  bool Load(const std::string& file, std::string* bytes) {
    file_ = file;
    absl::StatusOr<std::string> found = folder_.FindFile(file);
    if (!found.ok()) {
      Problem("", absl::IsNotFound(found.status()) ? "is missing" : found.status().message());
      return false;
    }
    absl::StatusOr<std::string> content = ReadRegularFile(folder_.PathOf(*found), kMaxModelBytes);
    if (!content.ok()) {
      Problem("", content.status().message());
      return false;
    }
    *bytes = *std::move(content);
    return true;
  }

  void Problem(std::string_view field, absl::string_view message) {
    AddProblem(problems_, file_, field, std::string(message));
    has_image_problems_ = true;
  }

  void CutOff(const Cursor& cursor, std::string_view field) {
    Problem(field, absl::StrCat("the file is cut off at byte ", cursor.position()));
  }

  void AddCamera(uint32_t id, ColmapCamera camera) {
    const std::string field = camera.field;
    if (!model_.cameras.emplace(id, std::move(camera)).second) {
      Problem(field, absl::StrCat("camera id ", id, " is there twice"));
    }
  }

  void AddImage(ColmapImage image) {
    if (model_.images.size() >= kMaxImages) {
      Problem("", absl::StrCat("more than ", kMaxImages, " images"));
      return;
    }
    model_.images.push_back(std::move(image));
  }

  void ReadBinaryCameras(std::string_view bytes) {
    Cursor cursor(bytes);
    uint64_t n_cameras = 0;
    if (!cursor.Read(&n_cameras)) return CutOff(cursor, "");
    constexpr size_t kCameraBytes = 4 + 4 + 8 + 8;
    if (n_cameras > cursor.remaining() / kCameraBytes) {
      return Problem("",
                     absl::StrCat("says it has ", n_cameras, " cameras, too many for its size"));
    }
    for (uint64_t i = 0; i < n_cameras; ++i) {
      uint32_t id = 0;
      int32_t model_id = 0;
      ColmapCamera camera;
      if (!cursor.Read(&id) || !cursor.Read(&model_id) || !cursor.Read(&camera.width) ||
          !cursor.Read(&camera.height)) {
        return CutOff(cursor, absl::StrCat("camera number ", i + 1));
      }
      camera.field = absl::StrCat("camera ", id);
      const auto* model = std::find_if(std::begin(kCameraModels), std::end(kCameraModels),
                                       [&](const CameraModel& m) { return m.id == model_id; });
      if (model == std::end(kCameraModels)) {
        // Without its number of parameters the rest cannot be read.
        return Problem(camera.field, absl::StrCat("unknown camera model ", model_id));
      }
      camera.model = model;
      camera.params.resize(static_cast<size_t>(model->n_params));
      if (!cursor.ReadDoubles(camera.params.data(), camera.params.size())) {
        return CutOff(cursor, camera.field);
      }
      AddCamera(id, std::move(camera));
    }
  }

  void ReadBinaryImages(std::string_view bytes) {
    Cursor cursor(bytes);
    uint64_t n_images = 0;
    if (!cursor.Read(&n_images)) return CutOff(cursor, "");
    constexpr size_t kImageBytes = 4 + 7 * 8 + 4 + 1 + 8;
    if (n_images > cursor.remaining() / kImageBytes) {
      return Problem("", absl::StrCat("says it has ", n_images, " images, too many for its size"));
    }
    for (uint64_t i = 0; i < n_images; ++i) {
      const std::string number = absl::StrCat("image number ", i + 1);
      uint32_t id = 0;
      uint64_t n_points = 0;
      ColmapImage image;
      if (!cursor.Read(&id) || !cursor.ReadDoubles(image.rotation, 4) ||
          !cursor.ReadDoubles(image.translation, 3) || !cursor.Read(&image.camera_id) ||
          !cursor.ReadName(&image.name) || !cursor.Read(&n_points) ||
          !cursor.Skip(n_points, 3 * 8)) {
        return CutOff(cursor, number);
      }
      image.field = absl::StrCat("image ", id);
      AddImage(std::move(image));
    }
  }

  // Calls line(number, text) for each line without its end; text is stripped.
  template <typename Line>
  static void ForEachLine(std::string_view bytes, const Line& line) {
    int number = 0;
    for (size_t start = 0; start < bytes.size();) {
      size_t end = bytes.find('\n', start);
      if (end == std::string_view::npos) end = bytes.size();
      const absl::string_view text(bytes.data() + start, end - start);
      line(++number, absl::StripAsciiWhitespace(text));
      start = end + 1;
    }
  }

  void ReadTextCameras(std::string_view bytes) {
    ForEachLine(bytes, [this](int number, absl::string_view text) {
      if (text.empty() || text[0] == '#') return;
      ReadCameraLine(absl::StrCat("line ", number), text);
    });
  }

  void ReadCameraLine(const std::string& field, absl::string_view text) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(text, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    uint32_t id = 0;
    ColmapCamera camera;
    camera.field = field;
    if (words.size() < 4 || !absl::SimpleAtoi(words[0], &id) ||
        !absl::SimpleAtoi(words[2], &camera.width) || !absl::SimpleAtoi(words[3], &camera.height)) {
      return Problem(field, "must be CAMERA_ID MODEL WIDTH HEIGHT PARAMS");
    }
    const auto* model = std::find_if(std::begin(kCameraModels), std::end(kCameraModels),
                                     [&](const CameraModel& m) { return words[1] == m.name; });
    if (model == std::end(kCameraModels)) {
      return Problem(field,
                     absl::StrCat("unknown camera model ",
                                  Printable(std::string_view(words[1].data(), words[1].size()))));
    }
    camera.model = model;
    if (model->is_supported && words.size() - 4 != static_cast<size_t>(model->n_params)) {
      return Problem(field, absl::StrCat(model->name, " has ", model->n_params, " parameters, not ",
                                         words.size() - 4));
    }
    for (size_t i = 4; i < words.size(); ++i) {
      double value = 0;
      if (!absl::SimpleAtod(words[i], &value)) {
        return Problem(field, absl::StrCat("parameter ", i - 3, " is not a number"));
      }
      camera.params.push_back(value);
    }
    AddCamera(id, std::move(camera));
  }

  // Two lines an image: the pose, then the points, which may be none.
  void ReadTextImages(std::string_view bytes) {
    bool is_points_line = false;
    ForEachLine(bytes, [&](int number, absl::string_view text) {
      const std::string field = absl::StrCat("line ", number);
      if (is_points_line) {
        is_points_line = false;
        const size_t n_words = CountWords(text);
        if (n_words % 3 != 0) {
          Problem(field, absl::StrCat("must be the points of the image on the line before, three "
                                      "numbers each; has ",
                                      n_words, " words"));
        }
        return;
      }
      if (text.empty() || text[0] == '#') return;
      is_points_line = true;
      ReadImageLine(field, text);
    });
  }

  static size_t CountWords(absl::string_view text) {
    size_t n_words = 0;
    bool was_space = true;
    for (const char c : text) {
      const bool is_space = c == ' ' || c == '\t';
      if (was_space && !is_space) ++n_words;
      was_space = is_space;
    }
    return n_words;
  }

  void ReadImageLine(const std::string& field, absl::string_view text) {
    constexpr int kNumbers = 9;  // id, quaternion, translation, camera; the rest is the name
    absl::string_view rest = text;
    absl::string_view words[kNumbers];
    for (absl::string_view& word : words) {
      rest = absl::StripLeadingAsciiWhitespace(rest);
      word = rest.substr(0, rest.find_first_of(" \t"));
      rest.remove_prefix(word.size());
    }
    rest = absl::StripLeadingAsciiWhitespace(rest);
    ColmapImage image;
    image.field = field;
    uint32_t id = 0;
    bool is_good = !rest.empty() && absl::SimpleAtoi(words[0], &id) &&
                   absl::SimpleAtoi(words[8], &image.camera_id);
    for (int i = 0; is_good && i < 4; ++i) {
      is_good = absl::SimpleAtod(words[1 + i], &image.rotation[i]);
    }
    for (int i = 0; is_good && i < 3; ++i) {
      is_good = absl::SimpleAtod(words[5 + i], &image.translation[i]);
    }
    if (!is_good) {
      return Problem(field, "must be IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME");
    }
    image.name = std::string(rest);
    AddImage(std::move(image));
  }

  const SceneFolder& folder_;
  std::vector<SceneProblem>* problems_;
  std::string file_;
  ColmapModel model_;
  bool has_image_problems_ = false;
};

Intrinsics IntrinsicsOf(const ColmapCamera& camera, const std::string& cameras_file,
                        std::vector<SceneProblem>* problems) {
  Intrinsics intrinsics;
  intrinsics.model = camera.model->name;
  intrinsics.size_field = intrinsics.focal_field[0] = intrinsics.focal_field[1] = camera.field;
  const auto broken = [&](const std::string& message) {
    AddProblem(problems, cameras_file, camera.field, message);
    intrinsics.is_broken = true;
    return intrinsics;
  };
  if (!camera.model->is_supported) {
    return broken(absl::StrCat("camera model ", camera.model->name,
                               " is not supported; SIMPLE_PINHOLE, PINHOLE, SIMPLE_RADIAL, RADIAL "
                               "and OPENCV are"));
  }
  if (camera.width == 0 || camera.height == 0 || camera.width > kMaxSide ||
      camera.height > kMaxSide) {
    return broken(absl::StrCat("picture of ", camera.width, "x", camera.height, " pixels"));
  }
  for (const double param : camera.params) {
    if (!std::isfinite(param)) return broken("a parameter is not a finite number");
  }
  intrinsics.width = static_cast<double>(camera.width);
  intrinsics.height = static_cast<double>(camera.height);
  const std::vector<double>& params = camera.params;
  const bool has_two_focals = camera.model->id == 1 || camera.model->id == 4;
  const size_t center = has_two_focals ? 2 : 1;
  intrinsics.focal[0] = params[0];
  intrinsics.focal[1] = params[has_two_focals ? 1 : 0];
  if (!(*intrinsics.focal[0] > 0) || !(*intrinsics.focal[1] > 0)) {
    return broken(absl::StrFormat("focal length %g must be greater than 0",
                                  std::min(*intrinsics.focal[0], *intrinsics.focal[1])));
  }
  intrinsics.cx = params[center];
  intrinsics.cy = params[center + 1];
  if (camera.model->id >= 2) intrinsics.k1 = params[center + 2];
  if (camera.model->id >= 3) intrinsics.k2 = params[center + 3];
  if (camera.model->id == 4) {
    intrinsics.p1 = params[6];
    intrinsics.p2 = params[7];
  }
  return intrinsics;
}

// World-to-camera quaternion and translation to OpenGL camera-to-world. False when it is no pose.
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

}  // namespace

bool HasColmapModel(const SceneFolder& folder) { return !FindModelFolder(folder).empty(); }

ListedViews ReadColmap(const SceneFolder& folder, std::vector<SceneProblem>* problems) {
  ListedViews listed;
  listed.flavour = SceneFlavour::kColmap;
  const std::string model_folder = FindModelFolder(folder);
  const bool has_text =
      folder.HasFile(model_folder + "/cameras.txt") && folder.HasFile(model_folder + "/images.txt");
  const bool has_binary =
      folder.HasFile(model_folder + "/cameras.bin") || folder.HasFile(model_folder + "/images.bin");
  const bool has_both_binary =
      folder.HasFile(model_folder + "/cameras.bin") && folder.HasFile(model_folder + "/images.bin");
  const bool is_binary = has_both_binary || (has_binary && !has_text);
  const char* ending = is_binary ? ".bin" : ".txt";
  listed.source = absl::StrCat(model_folder, is_binary ? " (binary)" : " (text)");
  const std::string cameras_file = absl::StrCat(model_folder, "/cameras", ending);
  const std::string images_file = absl::StrCat(model_folder, "/images", ending);
  const ColmapModel model =
      ModelReader(folder, problems).Read(cameras_file, images_file, is_binary);

  std::map<uint32_t, Intrinsics> intrinsics;
  std::map<std::string, std::string> seen;  // image to the entry that names it
  listed.n_listed = static_cast<int>(model.images.size());
  for (const ColmapImage& image : model.images) {
    ListedView view;
    view.list_file = images_file;
    view.field = image.field;
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
                 "the pose is no rotation and translation (zero or not finite)");
    }
    // Only checked here, because "images/" in front would make any name relative.
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
