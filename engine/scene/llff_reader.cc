#include "engine/scene/llff_reader.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace nerf {
namespace {

constexpr size_t kRowNumbers = 17;
constexpr size_t kMaxRows = 100'000;
constexpr uint64_t kMaxBytes = (kMaxRows * kRowNumbers + 1024) * sizeof(double);
constexpr double kMaxLlffLength = 1e9;
constexpr const char* kFolders[] = {"images", "images_2", "images_4", "images_8"};
static_assert(std::endian::native == std::endian::little);

// The value of a key in the header of an .npy file, a Python dictionary: up to the next comma
// outside of parentheses.
std::string HeaderValue(const std::string& header, const std::string& key) {
  const size_t at = header.find("'" + key + "'");
  const size_t colon = at == std::string::npos ? at : header.find(':', at);
  if (colon == std::string::npos) return "";
  std::string value;
  int depth = 0;
  for (size_t i = colon + 1; i < header.size(); ++i) {
    const char c = header[i];
    if (c == '(') ++depth;
    if (c == ')') --depth;
    if (depth <= 0 && (c == ',' || c == '}')) break;
    if (c != ' ') value += c;
  }
  return value;
}

// Rows of 17 numbers of an .npy file of float64 or float32. Nullopt after adding a problem.
std::optional<std::vector<double>> ParseRows(const std::string& bytes,
                                             std::vector<SceneProblem>* problems) {
  const auto fail = [&](const std::string& message) {
    AddProblem(problems, kLlffFile, "", message);
    return std::nullopt;
  };
  if (bytes.size() < 12 || bytes.compare(0, 6, "\x93NUMPY") != 0) return fail("is no .npy file");
  const bool is_long = bytes[6] >= 2;
  const size_t length_bytes = is_long ? 4 : 2, begin = 8 + length_bytes;
  uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 8, length_bytes);
  if (bytes.size() - begin < length) return fail("ends within its header");
  const std::string header = bytes.substr(begin, length);
  const std::string type = HeaderValue(header, "descr"), shape = HeaderValue(header, "shape");
  if (type != "'<f8'" && type != "'<f4'") return fail("must hold float64 or float32 numbers");
  if (HeaderValue(header, "fortran_order") != "False") return fail("must be stored row by row");
  const size_t width = type == "'<f8'" ? sizeof(double) : sizeof(float);
  const size_t n_bytes = bytes.size() - begin - length, n_rows = n_bytes / width / kRowNumbers;
  if (n_rows == 0 || n_rows * kRowNumbers * width != n_bytes ||
      shape != absl::StrCat("(", n_rows, ",", kRowNumbers, ")")) {
    return fail("must be an array of N x 17 numbers");
  }
  std::vector<double> numbers(n_rows * kRowNumbers);
  const char* at = bytes.data() + begin + length;
  for (double& number : numbers) {
    if (width == sizeof(double)) {
      std::memcpy(&number, at, width);
    } else {
      float single = 0;
      std::memcpy(&single, at, width);
      number = single;
    }
    at += width;
  }
  return numbers;
}

// Pictures of a folder, sorted by name.
std::vector<std::string> PicturesIn(const SceneFolder& folder, const std::string& name) {
  std::vector<std::string> pictures;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder.PathOf(name), error), end; !error && it != end;
       it.increment(error)) {
    const std::string ending = absl::AsciiStrToLower(it->path().extension().string());
    if (ending != ".png" && ending != ".jpg" && ending != ".jpeg") continue;
    pictures.push_back(absl::StrCat(name, "/", it->path().filename().string()));
  }
  std::sort(pictures.begin(), pictures.end());
  return pictures;
}

// False after adding a problem.
bool ReadRow(const double* row, const std::string& field, ListedView* view,
             std::vector<SceneProblem>* problems) {
  for (size_t i = 0; i < kRowNumbers; ++i) {
    if (std::abs(row[i]) <= kMaxLlffLength) continue;
    AddProblem(problems, kLlffFile, field, "holds a number that is not finite or out of range");
    return false;
  }
  Pose& pose = view->pose;
  for (int i = 0; i < 3; ++i) {
    const double* line = row + 5 * i;
    pose.m[i][0] = line[1];
    pose.m[i][1] = -line[0];
    pose.m[i][2] = line[2];
    pose.m[i][3] = line[3];
  }
  double scale = 1;
  if (!Orthonormalize(&pose, &scale)) {
    AddProblem(problems, kLlffFile, field, "is no rotation: it is mirrored, sheared or zero");
    return false;
  }
  Intrinsics& intrinsics = view->intrinsics;
  intrinsics.model = "PINHOLE";
  intrinsics.height = row[4];
  intrinsics.width = row[9];
  intrinsics.focal[0] = intrinsics.focal[1] = row[14];
  intrinsics.size_field = intrinsics.focal_field[0] = intrinsics.focal_field[1] = field;
  if (!(row[4] >= 1) || !(row[9] >= 1) || !(row[14] > 0)) {
    AddProblem(problems, kLlffFile, field, "height, width and focal length must be above 0");
    return false;
  }
  return true;
}

}  // namespace

bool HasLlff(const SceneFolder& folder) { return folder.HasFile(kLlffFile); }

ListedViews ReadLlff(const SceneFolder& folder, std::vector<SceneProblem>* problems) {
  ListedViews listed;
  listed.flavor = SceneFlavor::kColmap;
  listed.source = kLlffFile;
  listed.files = {kLlffFile};
  const absl::StatusOr<std::string> bytes = ReadRegularFile(folder.PathOf(kLlffFile), kMaxBytes);
  if (!bytes.ok()) {
    AddProblem(problems, kLlffFile, "", std::string(bytes.status().message()));
    return listed;
  }
  const std::optional<std::vector<double>> rows = ParseRows(*bytes, problems);
  if (!rows.has_value()) return listed;
  const size_t n = rows->size() / kRowNumbers;
  listed.n_listed = static_cast<int>(n);
  std::vector<std::string> pictures;
  for (const char* name : kFolders) {
    pictures = PicturesIn(folder, name);
    if (!pictures.empty()) break;
  }
  if (pictures.size() != n) {
    AddProblem(problems, kLlffFile, "",
               absl::StrCat("lists ", n, " poses, and there are ", pictures.size(),
                            " pictures in images/, images_2/, images_4/ or images_8/; the counts "
                            "must be the same, because the file has no names"));
    return listed;
  }
  std::vector<double> far;
  for (size_t i = 0; i < n; ++i) {
    ListedView view;
    view.list_file = kLlffFile;
    view.field = absl::StrCat("row ", i);
    const double* row = rows->data() + i * kRowNumbers;
    if (!ReadRow(row, view.field, &view, problems)) continue;
    absl::StatusOr<std::string> file = folder.FindFile(pictures[i]);
    if (!file.ok()) {
      AddProblem(problems, kLlffFile, view.field, std::string(file.status().message()));
      continue;
    }
    view.file = *std::move(file);
    far.push_back(row[16]);
    listed.views.push_back(std::move(view));
  }
  std::sort(far.begin(), far.end());
  if (!far.empty()) listed.far_bound = std::max(0.0, far[far.size() / 2]);
  return listed;
}

}  // namespace nerf
