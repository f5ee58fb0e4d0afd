#include "engine/scene/read/transforms_json.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "common/counted.h"
#include "engine/base/camera_matrix.h"
#include "engine/scene/files/foreign_file.h"
#include "engine/scene/files/json_text.h"
#include "engine/scene/files/scene_files.h"

namespace nerf {
namespace {

using Json = nlohmann::json;

constexpr double kMaxListedSide = 65536;

// Records the parser's first error and the field in which it occurred.
struct ErrorCatcher : nlohmann::json_sax<Json> {
  struct Level {
    bool is_array = false;
    size_t n_done = 0;  // complete entries of an array
    std::string key;    // last key of an object
  };
  static constexpr size_t kMaxLevels = 8;
  std::vector<Level> levels;  // the outermost kMaxLevels, because input may nest without limit
  size_t depth = 0;
  size_t position = 0;
  std::string message;

  // "frames[3].transform_matrix[0][2]"; "" outside all fields and below kMaxLevels.
  std::string Field() const {
    std::string field;
    if (depth > levels.size()) return field;
    for (const Level& level : levels) {
      if (level.is_array) {
        absl::StrAppend(&field, "[", level.n_done, "]");
      } else if (!level.key.empty()) {
        absl::StrAppend(&field, field.empty() ? "" : ".", level.key);
      }
    }
    return Printable(field);
  }
  bool EndValue() {
    if (depth > 0 && depth == levels.size()) ++levels.back().n_done;
    return true;
  }
  bool Open(bool is_array) {
    if (++depth <= kMaxLevels) levels.push_back({is_array, 0, ""});
    return true;
  }
  bool Close() {
    if (depth-- <= kMaxLevels) levels.pop_back();
    return EndValue();
  }

  bool null() override { return EndValue(); }
  bool boolean(bool) override { return EndValue(); }
  bool number_integer(number_integer_t) override { return EndValue(); }
  bool number_unsigned(number_unsigned_t) override { return EndValue(); }
  bool number_float(number_float_t, const string_t&) override { return EndValue(); }
  bool string(string_t&) override { return EndValue(); }
  bool binary(binary_t&) override { return EndValue(); }
  bool start_object(size_t) override { return Open(false); }
  bool key(string_t& key) override {
    if (depth == levels.size()) levels.back().key = key;
    return true;
  }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(true); }
  bool end_array() override { return Close(); }
  bool parse_error(size_t at, const std::string&, const Json::exception& error) override {
    position = at;
    message = error.what();
    return false;
  }
};

// What a value is, for messages: "NaN", "string".
std::string WhatIs(const Json& value) {
  if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    if (absl::StartsWith(text, kNoNumber)) return Printable(text.substr(1, 40));
  }
  return value.type_name();
}

// null is absent.
void EraseNulls(Json* object) {
  for (auto it = object->begin(); it != object->end();)
    it = it->is_null() ? object->erase(it) : std::next(it);
}

// Removes the library's prefix: "[json.exception.parse_error.101] parse error at line 1, column 2:
// ".
std::string WithoutPrefix(const std::string& message) {
  size_t start = message.find("column ");
  if (start != std::string::npos) start = message.find(": ", start);
  if (start == std::string::npos) start = message.find("] ");
  return Printable(start == std::string::npos ? message : message.substr(start + 2));
}

struct NumberRange {
  double min, max;
  const char* rule;
};
constexpr NumberRange kSideRange = {1, kMaxListedSide, "must be between 1 and 65536"};
constexpr NumberRange kFocalRange = {1e-6, 1e9, "must be greater than 0 and at most 1e9"};
constexpr NumberRange kDegreesRange = {1e-3, 179.99, "must be between 0 and 180 degrees"};
constexpr NumberRange kRadiansRange = {1e-5, std::numbers::pi - 1e-4,
                                       "must be between 0 and pi radians"};
constexpr NumberRange kCenterRange = {-1e6, 1e6, "is absurd"};
constexpr NumberRange kDistortionRange = {-kMaxDistortion, kMaxDistortion, "is absurd"};

// Reads the keys of one object and records whether any was invalid.
class FieldReader {
 public:
  FieldReader(const Json& object, std::string_view prefix, const JsonProblems& out)
      : object_(object), prefix_(prefix), out_(out) {}

  std::optional<double> Number(const char* key, const NumberRange& range) {
    const std::optional<double> number = ReadNumber(object_, key, prefix_, out_, &is_broken_);
    if (number && !(*number >= range.min && *number <= range.max)) {
      Broken(key, absl::StrFormat("%g %s", *number, range.rule));
      return std::nullopt;
    }
    return number;
  }
  void NumberInto(const char* key, const NumberRange& range, double* target) {
    if (const std::optional<double> number = Number(key, range)) *target = *number;
  }
  void NumberInto(const char* key, const NumberRange& range, std::optional<double>* target) {
    if (const std::optional<double> number = Number(key, range)) *target = number;
  }
  // Present, and neither false nor 0.
  bool IsSet(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end() || found->is_null()) return false;
    if (found->is_boolean()) return found->get<bool>();
    if (found->is_number()) return found->get<double>() != 0;
    return true;
  }
  bool Has(const char* key) const { return object_.contains(key); }
  std::string Field(std::string_view key) const {
    return absl::StrCat(std::string(prefix_), std::string(key));
  }
  void Broken(std::string_view key, std::string_view message) {
    out_.Add(Field(key), message);
    is_broken_ = true;
  }
  bool is_broken() const { return is_broken_; }

 private:
  const Json& object_;
  std::string_view prefix_;
  const JsonProblems& out_;
  bool is_broken_ = false;
};

void ReadCameraModel(const Json& object, FieldReader* reader, Intrinsics* intrinsics) {
  // Lenses that follow from their distortion are pinholes here.
  static constexpr std::pair<const char*, LensModel> kLenses[] = {
      {"PINHOLE", LensModel::kPinhole},        {"SIMPLE_PINHOLE", LensModel::kPinhole},
      {"SIMPLE_RADIAL", LensModel::kPinhole},  {"RADIAL", LensModel::kPinhole},
      {"OPENCV", LensModel::kPinhole},         {"FULL_OPENCV", LensModel::kPinhole},
      {"OPENCV_FISHEYE", LensModel::kFisheye}, {"SIMPLE_RADIAL_FISHEYE", LensModel::kFisheye},
      {"RADIAL_FISHEYE", LensModel::kFisheye}, {"EQUIRECTANGULAR", LensModel::kEquirectangular}};
  // Words of other programs for two of them.
  static constexpr std::pair<const char*, const char*> kOtherWords[] = {
      {"PERSPECTIVE", "OPENCV"}, {"FISHEYE", "OPENCV_FISHEYE"}};
  const auto model = object.find("camera_model");
  if (model != object.end() && !model->is_null()) {
    if (!model->is_string()) {
      reader->Broken("camera_model", "must be a text such as \"OPENCV\"");
      return;
    }
    intrinsics->model = absl::AsciiStrToUpper(model->get<std::string>());
    for (const auto& [word, known] : kOtherWords) {
      if (intrinsics->model == word) intrinsics->model = known;
    }
    const auto* const known =
        std::find_if(std::begin(kLenses), std::end(kLenses),
                     [&](const auto& lens) { return intrinsics->model == lens.first; });
    if (known == std::end(kLenses)) {
      reader->Broken("camera_model",
                     absl::StrCat("camera model \"", Printable(intrinsics->model),
                                  "\" is not supported; PINHOLE, SIMPLE_PINHOLE, SIMPLE_RADIAL, "
                                  "RADIAL, OPENCV, FULL_OPENCV, OPENCV_FISHEYE, "
                                  "SIMPLE_RADIAL_FISHEYE, RADIAL_FISHEYE and EQUIRECTANGULAR are"));
    } else {
      intrinsics->lens = known->second;
    }
  }
  if (reader->IsSet("is_fisheye")) intrinsics->lens = LensModel::kFisheye;
  if (reader->IsSet("equirectangular")) intrinsics->lens = LensModel::kEquirectangular;
  for (const char* lens : {"ftheta_p0", "latlong", "orthographic"}) {
    if (reader->IsSet(lens)) {
      reader->Broken(lens,
                     "this lens is not supported; pinhole, OPENCV, fisheye and equirectangular "
                     "lenses are");
    }
  }
}

void ReadDistortion(const Json& object, FieldReader* reader, Intrinsics* intrinsics) {
  const auto params = object.find("distortion_params");
  if (params != object.end() && !params->is_null()) {
    // k1, k2, k3, k4, p1, p2
    double values[6] = {};
    bool is_good = params->is_array() && params->size() <= 6;
    for (size_t i = 0; is_good && i < params->size(); ++i) {
      const std::optional<double> number = NumberOf((*params)[i]);
      values[i] = number.value_or(0);
      is_good = number && std::abs(*number) <= kMaxDistortion;
    }
    if (!is_good) {
      reader->Broken("distortion_params", "must be up to 6 numbers: k1, k2, k3, k4, p1, p2");
    } else {
      intrinsics->k4 = values[3];
      intrinsics->k1 = values[0];
      intrinsics->k2 = values[1];
      intrinsics->k3 = values[2];
      intrinsics->p1 = values[4];
      intrinsics->p2 = values[5];
    }
  }
  for (const char* key : {"distortion_params", "k1"}) {
    if (reader->Has(key)) intrinsics->distortion_field = reader->Field(key);
  }
  reader->NumberInto("k1", kDistortionRange, &intrinsics->k1);
  reader->NumberInto("k2", kDistortionRange, &intrinsics->k2);
  reader->NumberInto("k3", kDistortionRange, &intrinsics->k3);
  reader->NumberInto("p1", kDistortionRange, &intrinsics->p1);
  reader->NumberInto("p2", kDistortionRange, &intrinsics->p2);
  reader->NumberInto("k4", kDistortionRange, &intrinsics->k4);
  reader->NumberInto("k5", kDistortionRange, &intrinsics->k5);
  reader->NumberInto("k6", kDistortionRange, &intrinsics->k6);
  const bool has_denominator = intrinsics->k4 != 0 || intrinsics->k5 != 0 || intrinsics->k6 != 0;
  if (has_denominator && intrinsics->lens == LensModel::kPinhole &&
      intrinsics->model != "FULL_OPENCV") {
    reader->Broken("k4",
                   "k4 to k6 are of camera models FULL_OPENCV and OPENCV_FISHEYE; state which");
  }
}

// Whether the last column of a matrix of 4 rows is 0 0 0 1, as the last row should be.
bool IsTransposed(const Json& matrix) {
  for (size_t row = 0; row < matrix.size(); ++row) {
    const Json& values = matrix[row];
    if (!values.is_array() || values.size() != 4) return false;
    const std::optional<double> last = NumberOf(values[3]);
    if (!last || std::abs(*last - (row == 3 ? 1 : 0)) > kMaxBottomRowError) return false;
  }
  return true;
}

// The matrix as rows; 12 or 16 numbers in a list are rows one after the other.
Json RowsOf(const Json& matrix) {
  const bool is_flat = matrix.is_array() && (matrix.size() == 12 || matrix.size() == 16);
  if (!is_flat || matrix[0].is_array()) return matrix;
  Json rows = Json::array();
  for (size_t i = 0; i < matrix.size(); i += 4)
    rows.push_back({matrix[i], matrix[i + 1], matrix[i + 2], matrix[i + 3]});
  return rows;
}

}  // namespace

std::optional<Json> ParseJsonObject(std::string_view given, const JsonProblems& out,
                                    std::vector<std::string>* warnings) {
  if (const std::string kind = ForeignFileKind(given); !kind.empty()) {
    out.Add("", absl::StrCat("is no JSON but ", kind));
    return std::nullopt;
  }
  const RepairedJson repaired = RepairJson(given);
  const std::string& text = repaired.text;
  Json root = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false,
                          /*ignore_comments=*/true);
  if (root.is_discarded()) {
    ErrorCatcher catcher;
    Json::sax_parse(text.begin(), text.end(), &catcher, Json::input_format_t::json,
                    /*strict=*/true, /*ignore_comments=*/true);
    const size_t position = std::min(catcher.position, text.size());
    const std::string_view before(text.data(), position > 0 ? position - 1 : 0);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const std::string field = catcher.Field();
    out.Add(absl::StrCat("line ", line), absl::StrCat("not valid JSON", field.empty() ? "" : " in ",
                                                      field, ": ", WithoutPrefix(catcher.message)));
    return std::nullopt;
  }
  if (!root.is_object()) {
    out.Add("", absl::StrCat("must be a JSON object, is ", root.type_name()));
    return std::nullopt;
  }
  EraseNulls(&root);
  if (const auto frames = root.find("frames"); frames != root.end() && frames->is_array()) {
    for (Json& frame : *frames) {
      if (frame.is_object()) EraseNulls(&frame);
    }
  }
  if (repaired.n_no_numbers > 0 && warnings != nullptr) {
    warnings->push_back(absl::StrCat(out.file, ": line ", repaired.first_line,
                                     ": NaN or infinity, which is no JSON; ignored where "
                                     "nothing reads it (",
                                     Counted(repaired.n_no_numbers, "value"), ")"));
  }
  return root;
}

const Json* FindFrames(const Json& root, const JsonProblems& out) {
  const auto frames = root.find("frames");
  if (frames == root.end()) {
    out.Add("frames", "is missing: a list with one entry for each image");
  } else if (!frames->is_array()) {
    out.Add("frames", absl::StrCat("must be a list, is ", frames->type_name()));
  } else if (frames->empty()) {
    out.Add("frames", "is empty: no image is listed");
  } else if (frames->size() > kMaxFrames) {
    out.Add("frames",
            absl::StrCat("lists ", frames->size(), " images; at most ", kMaxFrames, " are read"));
  } else {
    return &*frames;
  }
  return nullptr;
}

std::optional<double> NumberOf(const Json& value) {
  if (value.is_number()) return value.get<double>();
  double number = 0;
  const bool is_number = value.is_string() &&
                         absl::SimpleAtod(value.get_ref<const std::string&>(), &number) &&
                         std::isfinite(number);
  return is_number ? std::optional(number) : std::nullopt;
}

std::optional<double> ReadNumber(const Json& object, const char* key, std::string_view prefix,
                                 const JsonProblems& out, bool* is_broken) {
  const auto found = object.find(key);
  if (found == object.end()) return std::nullopt;
  const std::string field = absl::StrCat(std::string(prefix), key);
  const std::optional<double> number = NumberOf(*found);
  if (!number) {
    out.Add(field, absl::StrCat("must be a number, is ", WhatIs(*found)));
    *is_broken = true;
  }
  return number;
}

Intrinsics ReadIntrinsics(const Json& object, const Intrinsics& inherited, std::string_view prefix,
                          const JsonProblems& out) {
  Intrinsics intrinsics = inherited;
  FieldReader reader(object, prefix, out);
  ReadCameraModel(object, &reader, &intrinsics);
  reader.NumberInto("w", kSideRange, &intrinsics.width);
  reader.NumberInto("h", kSideRange, &intrinsics.height);
  if (intrinsics.size_field.empty() || reader.Has("w")) intrinsics.size_field = reader.Field("w");
  reader.NumberInto("cx", kCenterRange, &intrinsics.cx);
  reader.NumberInto("cy", kCenterRange, &intrinsics.cy);
  if (reader.Has("cx")) intrinsics.center_field[0] = reader.Field("cx");
  if (reader.Has("cy")) intrinsics.center_field[1] = reader.Field("cy");

  // The first of the three keys that is present is used, in instant-ngp's order. x_fov is in
  // degrees, camera_angle_x in radians.
  static constexpr const char* kKeys[2][3] = {{"x_fov", "fl_x", "camera_angle_x"},
                                              {"y_fov", "fl_y", "camera_angle_y"}};
  for (int axis = 0; axis < 2; ++axis) {
    const std::optional<double> degrees = reader.Number(kKeys[axis][0], kDegreesRange);
    const std::optional<double> focal = reader.Number(kKeys[axis][1], kFocalRange);
    const std::optional<double> radians = reader.Number(kKeys[axis][2], kRadiansRange);
    if (!degrees && !focal && !radians) continue;
    intrinsics.focal[axis].reset();
    intrinsics.angle[axis].reset();
    intrinsics.focal_field[axis] = reader.Field(kKeys[axis][degrees ? 0 : focal ? 1 : 2]);
    if (degrees) {
      intrinsics.angle[axis] = *degrees * std::numbers::pi / 180;
    } else if (focal) {
      intrinsics.focal[axis] = focal;
    } else {
      intrinsics.angle[axis] = radians;
    }
  }
  ReadDistortion(object, &reader, &intrinsics);
  intrinsics.is_broken = inherited.is_broken || reader.is_broken();
  return intrinsics;
}

bool HasFullIntrinsics(const Json& object) {
  static constexpr const char* kKeys[] = {"fl_x", "fl_y", "cx", "cy", "w",     "h",
                                          "k1",   "k2",   "p1", "p2", "x_fov", "distortion_params"};
  return std::any_of(std::begin(kKeys), std::end(kKeys),
                     [&](const char* key) { return object.contains(key); });
}

std::optional<float> ReadTime(const Json& frame, std::string_view prefix, const JsonProblems& out) {
  bool is_broken = false;
  const double time = ReadNumber(frame, "time", prefix, out, &is_broken).value_or(0);
  if (is_broken) return std::nullopt;
  if (!(time >= 0 && time <= 1)) {
    out.Add(absl::StrCat(std::string(prefix), "time"),
            absl::StrFormat("%g must be 0 to 1, from the first to the last picture", time));
    return std::nullopt;
  }
  return static_cast<float>(time);
}

std::optional<Pose> ReadPose(const Json& frame, std::string_view prefix, const JsonProblems& out,
                             double* uniform_scale) {
  const std::string field = absl::StrCat(std::string(prefix), "transform_matrix");
  const auto found = frame.find("transform_matrix");
  if (found == frame.end()) {
    out.Add(field, "is missing: 4 rows of 4 numbers, camera to world");
    return std::nullopt;
  }
  const Json matrix = RowsOf(*found);
  const bool has_rows = matrix.is_array() && (matrix.size() == 3 || matrix.size() == 4);
  if (!has_rows) {
    out.Add(field, "must have 4 rows of 4 numbers (3 rows are accepted)");
    return std::nullopt;
  }
  Pose pose;
  for (size_t row = 0; row < matrix.size(); ++row) {
    const Json& values = matrix[row];
    if (!values.is_array() || values.size() != 4) {
      out.Add(field, absl::StrCat("row ", row, " must have 4 numbers"));
      return std::nullopt;
    }
    for (size_t column = 0; column < 4; ++column) {
      const std::optional<double> number = NumberOf(values[column]);
      if (!number) {
        out.Add(field, absl::StrCat("row ", row, ", column ", column, " must be a number, is ",
                                    WhatIs(values[column])));
        return std::nullopt;
      }
      const double value = *number;
      if (!(std::abs(value) <= kMaxCoordinate)) {
        out.Add(field, absl::StrFormat("row %d, column %d is %g; coordinates up to 1e9 are read",
                                       row, column, value));
        return std::nullopt;
      }
      if (row < 3) {
        pose.m[row][column] = value;
      } else if (std::abs(value - (column == 3 ? 1 : 0)) > kMaxBottomRowError) {
        out.Add(field, absl::StrCat("the last row must be 0 0 0 1",
                                    IsTransposed(matrix)
                                        ? "; the last column is, so the matrix is transposed: its "
                                          "rows must be its columns"
                                        : ""));
        return std::nullopt;
      }
    }
  }
  if (!Orthonormalize(&pose, uniform_scale)) {
    out.Add(field,
            "the first 3 columns are not a rotation (mirrored, sheared, zero or unequally scaled)");
    return std::nullopt;
  }
  return pose;
}

}  // namespace nerf
