#include "engine/base/config/placement_text.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr std::string_view kAuto = "auto";
constexpr std::string_view kAxes[] = {"x", "y", "z", "-x", "-y", "-z"};
constexpr std::string_view kConventions[] = {"opengl", "opencv", "w2c"};  // of PoseConvention
constexpr double kMaxOwnLength = 1e9;

}  // namespace

std::string PosesText(const TrainConfig& config) {
  return std::string(kConventions[static_cast<int>(config.poses)]);
}

absl::Status ParsePoses(std::string_view text, TrainConfig* config) {
  const auto* const found = std::find(std::begin(kConventions), std::end(kConventions), text);
  if (found == std::end(kConventions))
    return absl::InvalidArgumentError("one of opengl, opencv and w2c");
  config->poses = static_cast<PoseConvention>(found - std::begin(kConventions));
  return absl::OkStatus();
}

std::string BoxText(const TrainConfig& config) {
  const std::optional<OwnCube>& box = config.placement.box;
  if (!box.has_value()) return std::string(kAuto);
  return fmt::format("{},{},{},{}", box->center[0], box->center[1], box->center[2], box->side);
}

absl::Status ParseBox(std::string_view text, TrainConfig* config) {
  if (text == kAuto) {
    config->placement.box.reset();
    return absl::OkStatus();
  }
  const std::vector<absl::string_view> words =
      absl::StrSplit(absl::string_view(text.data(), text.size()), ',');
  double numbers[4] = {};
  bool is_good = words.size() == std::size(numbers);
  for (size_t i = 0; is_good && i < words.size(); ++i) {
    is_good = absl::SimpleAtod(words[i], &numbers[i]) && std::abs(numbers[i]) <= kMaxOwnLength;
  }
  if (!is_good || !(numbers[3] > 1 / kMaxOwnLength)) {
    return absl::InvalidArgumentError("x,y,z,side with a side above 0, or auto");
  }
  config->placement.box = OwnCube{{numbers[0], numbers[1], numbers[2]}, numbers[3]};
  return absl::OkStatus();
}

std::string BoxesText(const TrainConfig& config) {
  const int n_boxes = config.placement.n_boxes;
  return n_boxes == 0 ? std::string(kAuto) : fmt::format("{}", n_boxes);
}

absl::Status ParseBoxes(std::string_view text, TrainConfig* config) {
  int n_boxes = 0;
  const bool is_number = absl::SimpleAtoi(absl::string_view(text.data(), text.size()), &n_boxes);
  if (text != kAuto && !(is_number && n_boxes >= 1 && n_boxes <= kMaxBoxes)) {
    return absl::InvalidArgumentError(fmt::format("a number from 1 to {}, or auto", kMaxBoxes));
  }
  config->placement.n_boxes = text == kAuto ? 0 : n_boxes;
  return absl::OkStatus();
}

std::string UpText(const TrainConfig& config) {
  const int axis = config.placement.up_axis;
  return std::string(axis < 0 ? kAuto : kAxes[axis]);
}

absl::Status ParseUp(std::string_view text, TrainConfig* config) {
  const auto* const found = std::find(std::begin(kAxes), std::end(kAxes), text);
  if (text != kAuto && found == std::end(kAxes)) {
    return absl::InvalidArgumentError("one of x, -x, y, -y, z, -z and auto");
  }
  config->placement.up_axis = text == kAuto ? -1 : static_cast<int>(found - std::begin(kAxes));
  return absl::OkStatus();
}

}  // namespace nerf
