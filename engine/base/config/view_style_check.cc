#include "engine/base/config/view_style_check.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <iterator>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/edit_distance.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

constexpr double kMaxStyleLength = 1e9;   // beyond it, floats have no fractions
constexpr double kMinStyleLength = 1e-9;  // of a side
constexpr double kMaxTurnError = 1e-3;    // of a quaternion's length
constexpr int64_t kDefaultPanoramaWidth = 2048;

void AddBoxProblems(const OwnBox& box, Problems* problems) {
  for (int axis = 0; axis < 3; ++axis) {
    if (!(std::abs(box.center[axis]) <= kMaxStyleLength)) {
      problems->Add(fmt::format("crop.center[{}]", axis), "must be a finite number up to 1e9");
    }
    const double half = 0.5 * box.size[axis];
    if (!(box.size[axis] >= kMinStyleLength && box.size[axis] <= kMaxStyleLength)) {
      problems->Add(fmt::format("crop.size[{}]", axis), "must be above 0 and at most 1e9");
    } else if (static_cast<float>(box.center[axis] + half) ==
               static_cast<float>(box.center[axis] - half)) {
      problems->Add(fmt::format("crop.size[{}]", axis), "is too short for numbers of its place");
    }
  }
  double squares = 0;
  for (const double number : box.turn) squares += number * number;
  if (!(std::abs(std::sqrt(squares) - 1) <= kMaxTurnError)) {
    problems->Add("crop.turn", "must be a quaternion x, y, z, w of length 1");
  }
}

absl::Status Invalid(std::string_view flag, std::string_view text, std::string_view words) {
  return absl::InvalidArgumentError(
      fmt::format("{}: '{}' is {}", flag, text.substr(0, 128), words));
}

}  // namespace

Problems ProblemsOf(const ViewStyle& style) {
  Problems problems;
  if (style.background.has_value()) {
    for (int i = 0; i < 3; ++i) {
      const float part = (*style.background)[i];
      problems.Require(part >= 0 && part <= 1, fmt::format("background[{}]", i), "must be 0 to 1");
    }
  }
  if (style.crop.has_value()) AddBoxProblems(*style.crop, &problems);
  if (!style.panorama.has_value()) return problems;
  const double eyes = style.panorama->eye_distance;
  if (style.panorama->stereo == StereoLayout::kMono) {
    problems.Require(eyes == 0, "panorama.eye_distance", "must be 0 without stereo");
  } else {
    problems.Require(eyes > 0 && eyes <= kMaxStyleLength, "panorama.eye_distance",
                     "must be above 0 with stereo, in the data set's unit: 0.063 in meters");
  }
  return problems;
}

absl::StatusOr<OwnBox> ParseOwnBox(std::string_view flag, std::string_view text) {
  OwnBox box;
  double* const places[] = {&box.center[0], &box.center[1], &box.center[2], &box.size[0],
                            &box.size[1],   &box.size[2],   &box.turn[0],   &box.turn[1],
                            &box.turn[2],   &box.turn[3]};
  const std::vector<std::string> words =
      absl::StrSplit(absl::string_view(text.data(), text.size()), ',');
  bool is_valid = words.size() == 6 || words.size() == 10;
  for (size_t i = 0; is_valid && i < words.size(); ++i)
    is_valid = absl::SimpleAtod(words[i], places[i]);
  if (!is_valid) {
    return Invalid(flag, text,
                   "not a center and three sides in the data set's frame, such as 0,0,0.5,2,2,1, "
                   "with or without a turn as quaternion x,y,z,w behind them");
  }
  ViewStyle style;
  style.crop = box;
  const Problems problems = ProblemsOf(style);
  if (problems.empty()) return box;
  return absl::InvalidArgumentError(
      fmt::format("{}: {} {}", flag, problems[0].field.substr(std::string_view("crop.").size()),
                  problems[0].message));
}

absl::StatusOr<Vec3> ParseColor(std::string_view flag, std::string_view text) {
  if (text == "white") return Vec3{1, 1, 1};
  if (text == "black") return Vec3{0, 0, 0};
  uint32_t rgb = 0;
  const std::string_view digits = text.substr(text.starts_with('#') ? 1 : 0);
  const char* const end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, rgb, 16);
  if (!text.starts_with('#') || digits.size() != 6 || read.ec != std::errc() || read.ptr != end)
    return Invalid(flag, text, "no color: white, black or #rrggbb");
  const auto part = [&](int shift) { return static_cast<float>(rgb >> shift & 255) / 255; };
  return Vec3{part(16), part(8), part(0)};
}

std::string_view StereoName(StereoLayout stereo) { return kStereoNames[static_cast<int>(stereo)]; }

absl::StatusOr<StereoLayout> ParseStereo(std::string_view flag, std::string_view text) {
  for (size_t i = 0; i < std::size(kStereoNames); ++i) {
    if (text == kStereoNames[i]) return static_cast<StereoLayout>(i);
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: {}", flag, NotOneOf(std::string(text), kStereoNames)));
}

absl::StatusOr<ViewStyle> ParseStyle(const StyleFlags& flags) {
  ViewStyle style;
  Problems wrong;
  if (!flags.background.empty())
    wrong.AddOrAssign(ParseColor("--background", flags.background), &style.background);
  if (!flags.crop.empty() && flags.crop != kNoCrop)
    wrong.AddOrAssign(ParseOwnBox("--crop", flags.crop), &style.crop);
  const auto stereo = ParseStereo("--stereo", flags.stereo);
  wrong.Add(stereo.status());
  if (flags.panorama) style.panorama = {stereo.value_or(StereoLayout::kMono), flags.eye_distance};
  const bool has_stereo = stereo.ok() && *stereo != StereoLayout::kMono;
  wrong.Require(!has_stereo || flags.panorama, "--stereo", "needs --panorama");
  if (stereo.ok()) {
    ViewStyle eyes;
    eyes.panorama = {*stereo, flags.eye_distance};
    for (const Problem& problem : ProblemsOf(eyes)) wrong.Add("--eye-distance", problem.message);
  }
  NERF_RETURN_IF_ERROR(wrong.Result());
  return style;
}

absl::StatusOr<ViewSize> PanoramaSize(StereoLayout stereo, ViewSize asked) {
  // Width over height of the whole picture, and the width of the default.
  const int64_t aspect = stereo == StereoLayout::kTopBottom   ? 1
                         : stereo == StereoLayout::kLeftRight ? 4
                                                              : 2;
  ViewSize size = asked;
  if (size.width == 0 && size.height == 0) {
    size.width = kDefaultPanoramaWidth * (stereo == StereoLayout::kLeftRight ? 2 : 1);
  }
  if (size.width == 0) size.width = size.height * aspect;
  if (size.height == 0) size.height = size.width / aspect;
  const bool is_even = stereo != StereoLayout::kTopBottom || size.height % 2 == 0;
  if (size.width != size.height * aspect || !is_even) {
    return absl::InvalidArgumentError(
        fmt::format("a panorama of {} x {} pixels; {}", size.width, size.height,
                    stereo == StereoLayout::kMono        ? "it is twice as wide as high"
                    : stereo == StereoLayout::kTopBottom ? "it is as wide as high, with an even "
                                                           "number of rows"
                                                         : "it is four times as wide as high"));
  }
  return ResolveViewSize(size, size);
}

}  // namespace nerf
