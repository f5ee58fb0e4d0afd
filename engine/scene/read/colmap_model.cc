#include "engine/scene/read/colmap_model.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/scene/files/json_text.h"

namespace nerf {
namespace {

static_assert(std::endian::native == std::endian::little,
              "COLMAP's binary files are little-endian");

// Files are read whole. A model of 1000 images with 20000 points each has half of this size.
constexpr uint64_t kMaxModelBytes = uint64_t{1} << 30;
constexpr size_t kMaxImages = 100'000;
constexpr uint64_t kNoPoint = UINT64_MAX;  // of a feature that is no point of the model

constexpr ColmapCameraModel kCameraModels[] = {
    {0, "SIMPLE_PINHOLE", 3, true},
    {1, "PINHOLE", 4, true},
    {2, "SIMPLE_RADIAL", 4, true},
    {3, "RADIAL", 5, true},
    {4, "OPENCV", 8, true},
    {5, "OPENCV_FISHEYE", 8, true},
    {6, "FULL_OPENCV", 12, true},
    {7, "FOV", 5, true},
    {8, "SIMPLE_RADIAL_FISHEYE", 4, true},
    {9, "RADIAL_FISHEYE", 5, true},
    {10, "THIN_PRISM_FISHEYE", 12, true},
    {11, "RAD_TAN_THIN_PRISM_FISHEYE", 16, false},
    {kEquirectangularId, "EQUIRECTANGULAR", 0, true},
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
  // The bytes of the items. False if the file is cut off.
  bool Take(uint64_t n_items, uint64_t item_bytes, std::string_view* taken) {
    if (n_items > remaining() / item_bytes) return false;
    *taken = bytes_.substr(position_, n_items * item_bytes);
    position_ += taken->size();
    return true;
  }
  size_t remaining() const { return bytes_.size() - position_; }
  size_t position() const { return position_; }

 private:
  std::string_view bytes_;
  size_t position_ = 0;
};

// Reads the two files of one model. Adds what is wrong to *problems.
class ModelReader {
 public:
  ModelReader(const SceneFolder& folder, Problems* problems)
      : folder_(folder), problems_(problems) {}

  ColmapModel Read(const std::string& cameras_file, const std::string& images_file,
                   bool is_binary) {
    std::string bytes;
    if (Load(cameras_file, &bytes)) {
      is_binary ? ReadBinaryCameras(bytes) : ReadTextCameras(DecodedText(bytes));
    }
    if (Load(images_file, &bytes)) {
      is_binary ? ReadBinaryImages(bytes) : ReadTextImages(DecodedText(bytes));
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
    problems_->Add(file_, field, std::string(message));
    has_image_problems_ = true;
  }

  void CutOff(const Cursor& cursor, std::string_view field) {
    Problem(field, absl::StrCat("the file is cut off at byte ", cursor.position()));
  }

  void AddCamera(uint32_t id, ColmapCamera camera) {
    const std::string field = camera.field;
    if (!model_.cameras.emplace(id, std::move(camera)).second) {
      Problem(field, absl::StrCat("camera id ", id, " occurs twice"));
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
      return Problem("", absl::StrCat("states ", n_cameras, " cameras, too many for its size"));
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
      const auto* model =
          std::find_if(std::begin(kCameraModels), std::end(kCameraModels),
                       [&](const ColmapCameraModel& m) { return m.id == model_id; });
      if (model == std::end(kCameraModels)) {
        // Its number of parameters is unknown, so the rest cannot be read.
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
      return Problem("", absl::StrCat("states ", n_images, " images, too many for its size"));
    }
    for (uint64_t i = 0; i < n_images; ++i) {
      const std::string number = absl::StrCat("image number ", i + 1);
      uint32_t id = 0;
      uint64_t n_points = 0;
      ColmapImage image;
      if (!cursor.Read(&id) || !cursor.ReadDoubles(image.rotation, 4) ||
          !cursor.ReadDoubles(image.translation, 3) || !cursor.Read(&image.camera_id) ||
          !cursor.ReadName(&image.name) || !cursor.Read(&n_points) ||
          !ReadObservations(&cursor, n_points, &image.observations)) {
        return CutOff(cursor, number);
      }
      image.id = id;
      image.field = absl::StrCat("image ", id);
      AddImage(std::move(image));
    }
  }

  // False if the file is cut off. Of points that belong to none of the model the id is -1.
  static bool ReadObservations(Cursor* cursor, uint64_t n_points,
                               std::vector<ColmapObservation>* observations) {
    constexpr size_t kBytes = 3 * 8;
    std::string_view bytes;
    if (!cursor->Take(n_points, kBytes, &bytes)) return false;
    const auto at = [&](uint64_t i) {
      double position[2];
      uint64_t point = kNoPoint;
      std::memcpy(position, bytes.data() + i * kBytes, sizeof(position));
      std::memcpy(&point, bytes.data() + i * kBytes + sizeof(position), sizeof(point));
      return ColmapObservation{static_cast<float>(position[0]), static_cast<float>(position[1]),
                               point};
    };
    uint64_t n_seen = 0;
    for (uint64_t i = 0; i < n_points; ++i) n_seen += at(i).point != kNoPoint;
    const uint64_t stride = n_seen / kMaxColmapObservations + 1;
    for (uint64_t i = 0, seen = 0; i < n_points; ++i) {
      const ColmapObservation observation = at(i);
      if (observation.point != kNoPoint && seen++ % stride == 0)
        observations->push_back(observation);
    }
    return true;
  }

  // The same of a line of numbers. Requires: a multiple of three words.
  static std::vector<ColmapObservation> ObservationsOf(absl::string_view text) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(text, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    std::vector<ColmapObservation> all;
    for (size_t i = 0; i + 2 < words.size(); i += 3) {
      ColmapObservation observation{};
      int64_t point = -1;
      if (absl::SimpleAtoi(words[i + 2], &point) && point >= 0 &&
          absl::SimpleAtof(words[i], &observation.x) &&
          absl::SimpleAtof(words[i + 1], &observation.y)) {
        observation.point = static_cast<uint64_t>(point);
        all.push_back(observation);
      }
    }
    const size_t stride = all.size() / kMaxColmapObservations + 1;
    std::vector<ColmapObservation> some;
    for (size_t i = 0; i < all.size(); i += stride) some.push_back(all[i]);
    return some;
  }

  // Calls line(number, text) for each line; text has no leading or trailing white space.
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
    const ColmapCameraModel* model =
        FindColmapCameraModel(std::string_view(words[1].data(), words[1].size()));
    if (model == nullptr) {
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

  // Whether the line has a name where one of points has numbers alone.
  static bool HasName(absl::string_view text) {
    constexpr size_t kNameAt = 9;
    const std::vector<absl::string_view> words =
        absl::StrSplit(text, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    double ignored = 0;
    return words.size() > kNameAt && !absl::SimpleAtod(words[kNameAt], &ignored);
  }

  // Two lines per image: the pose, then the points, which may be empty. Written by hand, often
  // without the second one.
  void ReadTextImages(std::string_view bytes) {
    bool is_points_line = false;
    ForEachLine(bytes, [&](int number, absl::string_view text) {
      const std::string field = absl::StrCat("line ", number);
      if (is_points_line && !HasName(text)) {
        is_points_line = false;
        const size_t n_words = CountWords(text);
        if (n_words % 3 != 0) {
          Problem(field, absl::StrCat("must hold the points of the image on the line before, three "
                                      "numbers each; has ",
                                      n_words, " words"));
        } else if (last_image_ < model_.images.size()) {
          model_.images[last_image_].observations = ObservationsOf(text);
        }
        return;
      }
      if (text.empty() || text[0] == '#') return;
      is_points_line = true;
      const size_t n_images = model_.images.size();
      ReadImageLine(field, text);
      last_image_ = model_.images.size() > n_images ? n_images : SIZE_MAX;
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
    image.id = id;
    image.name = std::string(rest);
    AddImage(std::move(image));
  }

  const SceneFolder& folder_;
  Problems* problems_;
  std::string file_;
  ColmapModel model_;
  bool has_image_problems_ = false;
  size_t last_image_ = SIZE_MAX;  // of the line before; SIZE_MAX: it was broken
};

}  // namespace

const ColmapCameraModel* FindColmapCameraModel(std::string_view name) {
  const auto* model = std::find_if(std::begin(kCameraModels), std::end(kCameraModels),
                                   [&](const ColmapCameraModel& m) { return name == m.name; });
  return model == std::end(kCameraModels) ? nullptr : model;
}

ColmapModel ReadColmapModel(const SceneFolder& folder, const std::string& cameras_file,
                            const std::string& images_file, bool is_binary, Problems* problems) {
  return ModelReader(folder, problems).Read(cameras_file, images_file, is_binary);
}

}  // namespace nerf
