#include "engine/scene/read/llff_reader.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "engine/base/folder_names.h"
#include "engine/base/picture_names.h"
#include "engine/scene/files/npy.h"

namespace nerf {
namespace {

constexpr size_t kRowNumbers = 17;
constexpr size_t kMaxRows = 100'000;
constexpr uint64_t kMaxBytes = (kMaxRows * kRowNumbers + 8192) * sizeof(double);
constexpr double kMaxLlffLength = 1e9;

// Rows of 17 numbers. Nullopt after adding a problem.
std::optional<std::vector<double>> ParseRows(const std::string& bytes, Problems* problems) {
  const auto fail = [&](std::string_view message) {
    problems->Add(kLlffFile, "", message);
    return std::nullopt;
  };
  const absl::StatusOr<NpyArray> array = ParseNpy(bytes);
  if (!array.ok()) return fail(std::string(array.status().message()));
  const std::vector<size_t>& shape = array->shape;
  if (shape.size() != 2 || shape[0] == 0 || shape[1] != kRowNumbers)
    return fail("must be an array of N x 17 numbers");
  std::vector<double> numbers;
  for (size_t row = 0; row < shape[0]; ++row) {
    for (size_t column = 0; column < kRowNumbers; ++column)
      numbers.push_back(array->At(row, column));
  }
  return numbers;
}

// Pictures of a folder, sorted by name.
std::vector<std::string> PicturesIn(const SceneFolder& folder, const std::string& name) {
  std::vector<std::string> pictures;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder.PathOf(name), error), end; !error && it != end;
       it.increment(error)) {
    const std::string picture = it->path().filename().string();
    if (HasPhotographEnding(picture)) pictures.push_back(absl::StrCat(name, "/", picture));
  }
  std::sort(pictures.begin(), pictures.end());
  return pictures;
}

// False after adding a problem.
bool ReadRow(const double* row, const std::string& field, ListedView* view, Problems* problems) {
  for (size_t i = 0; i < kRowNumbers; ++i) {
    if (std::abs(row[i]) <= kMaxLlffLength) continue;
    problems->Add(kLlffFile, field, "holds a number that is not finite or out of range");
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
    problems->Add(kLlffFile, field, "is no rotation: it is mirrored, sheared or zero");
    return false;
  }
  Intrinsics& intrinsics = view->intrinsics;
  intrinsics.model = "PINHOLE";
  intrinsics.height = row[4];
  intrinsics.width = row[9];
  intrinsics.focal[0] = intrinsics.focal[1] = row[14];
  intrinsics.size_field = intrinsics.focal_field[0] = intrinsics.focal_field[1] = field;
  if (!(row[4] >= 1) || !(row[9] >= 1) || !(row[14] > 0)) {
    problems->Add(kLlffFile, field, "height, width and focal length must be above 0");
    return false;
  }
  return true;
}

}  // namespace

bool HasLlff(const SceneFolder& folder) { return folder.HasFile(kLlffFile); }

ListedViews ReadLlff(const SceneFolder& folder, Problems* problems) {
  ListedViews listed;
  listed.flavor = SceneFlavor::kColmap;
  listed.source = kLlffFile;
  listed.files = {kLlffFile};
  const absl::StatusOr<std::string> bytes = ReadRegularFile(folder.PathOf(kLlffFile), kMaxBytes);
  if (!bytes.ok()) {
    problems->Add(kLlffFile, "", std::string(bytes.status().message()));
    return listed;
  }
  const std::optional<std::vector<double>> rows = ParseRows(*bytes, problems);
  if (!rows.has_value()) return listed;
  const size_t n = rows->size() / kRowNumbers;
  listed.n_listed = static_cast<int>(n);
  std::vector<std::string> pictures;
  for (const std::string_view name : kLlffFolders) {
    pictures = PicturesIn(folder, std::string(name));
    if (!pictures.empty()) break;
  }
  if (pictures.size() != n) {
    problems->Add(
        kLlffFile, "",
        absl::StrCat("lists ", n, " poses, and there are ", pictures.size(),
                     " pictures in images/, images_2/, images_4/ or images_8/; the counts "
                     "must be the same, because the file has no names"));
    return listed;
  }
  std::vector<double> near, far;
  for (size_t i = 0; i < n; ++i) {
    ListedView view;
    view.list_file = kLlffFile;
    view.field = absl::StrCat("row ", i);
    const double* row = rows->data() + i * kRowNumbers;
    if (!ReadRow(row, view.field, &view, problems)) continue;
    absl::StatusOr<std::string> file = folder.FindFile(pictures[i]);
    if (!file.ok()) {
      problems->Add(kLlffFile, view.field, std::string(file.status().message()));
      continue;
    }
    view.file = *std::move(file);
    near.push_back(row[15]);
    far.push_back(row[16]);
    listed.views.push_back(std::move(view));
  }
  std::sort(far.begin(), far.end());
  if (far.empty()) return listed;
  listed.near_bound = std::max(0.0, *std::min_element(near.begin(), near.end()));
  listed.far_bound = std::max(0.0, far[far.size() / 2]);
  return listed;
}

}  // namespace nerf
