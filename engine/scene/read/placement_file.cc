#include "engine/scene/read/placement_file.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/base/camera_matrix.h"
#include "engine/base/placement.h"
#include "engine/scene/read/transforms_json.h"
#include "nlohmann/json.hpp"

namespace nerf {
namespace {

constexpr uint64_t kMaxPlacementBytes = 1 << 16;
constexpr char kFrame[] = "own_to_training", kBox[] = "box", kBoxes[] = "boxes",
               kOrigin[] = "origin";

// n rows of m numbers.
bool ReadRows(const nlohmann::json& json, size_t n, size_t m, double* numbers) {
  if (!json.is_array() || json.size() != n) return false;
  for (const nlohmann::json& row : json) {
    if (!row.is_array() || row.size() != m) return false;
    for (const nlohmann::json& number : row) {
      if (!number.is_number()) return false;
      *numbers = number.get<double>();
      if (!(std::abs(*numbers++) <= kMaxCoordinate)) return false;
    }
  }
  return true;
}

}  // namespace

std::string PlacementText(const SceneGeometry& geometry) {
  nlohmann::ordered_json json;
  json[kFrame] = nlohmann::ordered_json::array();
  for (const auto& row : geometry.frame.own_to_training.m)
    json[kFrame].push_back({row[0], row[1], row[2], row[3]});
  const Vec3d& origin = geometry.frame.origin;
  if (origin != Vec3d{0, 0, 0}) json[kOrigin] = origin;
  const Aabb& box = geometry.box;
  json[kBox] = {{box.min.x, box.min.y, box.min.z}, {box.max.x, box.max.y, box.max.z}};
  json[kBoxes] = geometry.n_levels;
  return json.dump(1) + "\n";
}

std::optional<GivenPlacement> ParsePlacement(std::string_view text, Problems* problems) {
  const JsonProblems out{kPlacementFile, problems};
  const std::optional<nlohmann::json> json = ParseJsonObject(text, out);
  if (!json) return std::nullopt;
  const auto value = [&](const char* key) {
    const auto found = json->find(key);
    return found == json->end() ? nlohmann::json() : *found;
  };
  GivenPlacement placement;
  Pose pose;
  double scale = 1;
  if (!ReadRows(value(kFrame), 3, 4, &pose.m[0][0]) || !Orthonormalize(&pose, &scale)) {
    out.Add(kFrame, "must be 3 rows of 4 numbers, a rotation times a scale and a shift");
    return std::nullopt;
  }
  placement.own_to_training.scale = scale;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) placement.own_to_training.rotation[i][j] = pose.m[i][j];
    placement.own_to_training.translation[static_cast<size_t>(i)] = pose.m[i][3];
  }
  const nlohmann::json origin = nlohmann::json::array({value(kOrigin)});
  if (json->contains(kOrigin) && !ReadRows(origin, 1, 3, placement.origin.data())) {
    out.Add(kOrigin, "must be 3 numbers");
    return std::nullopt;
  }
  double box[6];
  bool is_box = ReadRows(value(kBox), 2, 3, box);
  for (int i = 0; is_box && i < 3; ++i) is_box = box[i] < box[i + 3];
  if (!is_box) {
    out.Add(kBox, "must be the low and the high corner of a box");
    return std::nullopt;
  }
  const auto corner = [&](int at) {
    return Vec3{static_cast<float>(box[at]), static_cast<float>(box[at + 1]),
                static_cast<float>(box[at + 2])};
  };
  placement.box = {corner(0), corner(3)};
  const nlohmann::json boxes = value(kBoxes);
  const bool is_count = boxes.is_number_unsigned() && boxes.get<uint64_t>() >= 1 &&
                        boxes.get<uint64_t>() <= uint64_t{kMaxBoxes};
  if (!is_count) {
    out.Add(kBoxes, absl::StrCat("must be 1 to ", kMaxBoxes));
    return std::nullopt;
  }
  placement.n_levels = boxes.get<int>();
  return placement;
}

void ReadPlacementFile(const SceneFolder& folder, ListedViews* listed, Problems* problems) {
  const absl::StatusOr<std::string> file = folder.FindFile(kPlacementFile);
  if (!file.ok()) return;
  listed->files.push_back(*file);
  const absl::StatusOr<std::string> text =
      ReadRegularFile(folder.PathOf(*file), kMaxPlacementBytes);
  if (!text.ok()) {
    problems->Add(kPlacementFile, "", std::string(text.status().message()));
    return;
  }
  listed->placement = ParsePlacement(*text, problems);
}

}  // namespace nerf
