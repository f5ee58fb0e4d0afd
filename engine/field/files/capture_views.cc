#include "engine/field/files/capture_views.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <utility>

#include "common/status_macros.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace nerf {
namespace {

constexpr size_t kLensNumbers = 15, kViewNumbers = 13;
constexpr int kMaxCaptureSide = 16384;
constexpr float kMaxLens = static_cast<float>(kLastLensModel);
constexpr float kMaxNumber = 1e9f;      // lens and pose numbers, absolute
constexpr float kMaxAxisError = 1e-2f;  // |dot product of two axes - expected| of a rotation

// Keys of the metadata.
struct Keys {
  explicit Keys(std::string_view prefix)
      : files(fmt::format("{}.files", prefix)),
        lenses(fmt::format("{}.lenses", prefix)),
        views(fmt::format("{}.views", prefix)) {}
  const std::string files, lenses, views;
};

// A camera without its pose.
Camera LensAlone(const Camera& camera) {
  Camera lens = camera;
  lens.camera_to_world = Mat34();
  return lens;
}

void Append(double number, std::string* text) {
  if (!text->empty()) *text += ' ';
  *text += fmt::format("{}", number);
}
void Append(float number, std::string* text) {
  if (!text->empty()) *text += ' ';
  *text += fmt::format("{}", number);
}

absl::Status Wrong(std::string_view key, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", key, what));
}

absl::StatusOr<std::vector<float>> NumbersOf(const std::map<std::string, std::string>& metadata,
                                             const std::string& key, size_t each) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return Wrong(key, "is missing");
  std::vector<float> numbers;
  const char* at = found->second.data();
  const char* end = at + found->second.size();
  while (at != end) {
    if (!numbers.empty() && *at++ != ' ') return Wrong(key, "numbers are separated by one space");
    float number = 0;
    const auto result = std::from_chars(at, end, number);
    if (result.ec != std::errc() || !(std::abs(number) <= kMaxNumber)) {
      return Wrong(key, fmt::format("must hold numbers of at most {:g}", kMaxNumber));
    }
    at = result.ptr;
    numbers.push_back(number);
    if (numbers.size() > kMaxCaptureViews * each) return Wrong(key, "has too many numbers");
  }
  if (numbers.size() % each != 0) {
    return Wrong(key, fmt::format("must have {} numbers for each entry", each));
  }
  return numbers;
}

absl::StatusOr<Camera> LensFrom(const std::string& key, const float* numbers) {
  Camera lens;
  const float width = numbers[0], height = numbers[1];
  if (!(width >= 1 && width <= kMaxCaptureSide && height >= 1 && height <= kMaxCaptureSide) ||
      !(numbers[3] > 0 && numbers[4] > 0)) {
    return Wrong(key, "a size or focal length is out of range");
  }
  if (!(numbers[2] >= 0 && numbers[2] <= kMaxLens && numbers[2] == std::floor(numbers[2]))) {
    return Wrong(key, "a lens is of no known model");
  }
  lens.width = static_cast<int>(width);
  lens.height = static_cast<int>(height);
  lens.lens = static_cast<LensModel>(static_cast<int>(numbers[2]));
  lens.fl_x = numbers[3], lens.fl_y = numbers[4], lens.cx = numbers[5], lens.cy = numbers[6];
  lens.k1 = numbers[7], lens.k2 = numbers[8], lens.k3 = numbers[9];
  lens.p1 = numbers[10], lens.p2 = numbers[11];
  lens.k4 = numbers[12], lens.k5 = numbers[13], lens.k6 = numbers[14];
  return lens;
}

bool IsRotation(const Mat34& pose) {
  for (int i = 0; i < 3; ++i) {
    for (int j = i; j < 3; ++j) {
      const float expected = i == j ? 1.0f : 0.0f;
      if (!(std::abs(Dot(pose.Column(i), pose.Column(j)) - expected) < kMaxAxisError)) return false;
    }
  }
  return Dot(Cross(pose.Column(0), pose.Column(1)), pose.Column(2)) > 0;
}

}  // namespace

std::vector<CaptureView> CaptureViewsOf(std::span<const View> views) {
  std::vector<CaptureView> capture;
  const size_t n = std::min(views.size(), kMaxCaptureViews);
  for (size_t i = 0; i < n; ++i) {
    const View& view = views[i * views.size() / n];
    capture.push_back({view.file, view.camera});
    capture.back().camera.time = 0;  // not stored
  }
  return capture;
}

float MedianPixel(const std::vector<CaptureView>& views) {
  if (views.empty()) return 0;
  std::vector<float> focals;
  for (const CaptureView& view : views) focals.push_back(view.camera.fl_x);
  const auto middle = focals.begin() + static_cast<std::ptrdiff_t>(focals.size() / 2);
  std::nth_element(focals.begin(), middle, focals.end());
  return 1 / *middle;
}

void StoreCaptureViews(std::string_view prefix, const std::vector<CaptureView>& views,
                       std::map<std::string, std::string>* metadata) {
  if (views.empty()) return;
  std::vector<Camera> lenses;
  std::string lens_text, view_text;
  nlohmann::json files = nlohmann::json::array();
  for (const CaptureView& view : views) {
    files.push_back(view.file);
    const Camera lens = LensAlone(view.camera);
    const auto found = std::find(lenses.begin(), lenses.end(), lens);
    Append(static_cast<double>(found - lenses.begin()), &view_text);
    for (const auto& row : view.camera.camera_to_world.m) {
      for (const float value : row) Append(value, &view_text);
    }
    if (found != lenses.end()) continue;
    lenses.push_back(lens);
    for (const float value :
         {static_cast<float>(lens.width), static_cast<float>(lens.height),
          static_cast<float>(lens.lens), lens.fl_x, lens.fl_y, lens.cx, lens.cy, lens.k1, lens.k2,
          lens.k3, lens.p1, lens.p2, lens.k4, lens.k5, lens.k6}) {
      Append(value, &lens_text);
    }
  }
  const Keys keys(prefix);
  (*metadata)[keys.files] = files.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  (*metadata)[keys.lenses] = lens_text;
  (*metadata)[keys.views] = view_text;
}

absl::Status LoadCaptureViews(std::string_view prefix,
                              const std::map<std::string, std::string>& metadata,
                              std::vector<CaptureView>* views) {
  views->clear();
  const Keys keys(prefix);
  const auto names = metadata.find(keys.files);
  if (names == metadata.end()) return absl::OkStatus();
  const nlohmann::json files = nlohmann::json::parse(names->second, nullptr, false);
  if (!files.is_array() || files.size() > kMaxCaptureViews ||
      !std::all_of(files.begin(), files.end(), [](const auto& f) { return f.is_string(); })) {
    return Wrong(keys.files,
                 fmt::format("must be a JSON list of at most {} strings", kMaxCaptureViews));
  }
  NERF_ASSIGN_OR_RETURN(const std::vector<float> lens_numbers,
                        NumbersOf(metadata, keys.lenses, kLensNumbers));
  NERF_ASSIGN_OR_RETURN(const std::vector<float> view_numbers,
                        NumbersOf(metadata, keys.views, kViewNumbers));
  std::vector<Camera> lenses;
  for (size_t i = 0; i < lens_numbers.size(); i += kLensNumbers) {
    NERF_ASSIGN_OR_RETURN(const Camera lens, LensFrom(keys.lenses, &lens_numbers[i]));
    lenses.push_back(lens);
  }
  if (view_numbers.size() != files.size() * kViewNumbers) {
    return Wrong(keys.views,
                 fmt::format("has {} views, {} has {}", view_numbers.size() / kViewNumbers,
                             keys.files, files.size()));
  }
  std::vector<CaptureView> read;
  for (size_t i = 0; i < files.size(); ++i) {
    const float* numbers = &view_numbers[i * kViewNumbers];
    if (!(numbers[0] >= 0 && numbers[0] < static_cast<float>(lenses.size()))) {
      return Wrong(keys.views, fmt::format("view {} has a lens that is not there", i));
    }
    CaptureView view{files[i].get<std::string>(), lenses[static_cast<size_t>(numbers[0])]};
    for (int row = 0; row < 3; ++row) {
      for (int column = 0; column < 4; ++column) {
        view.camera.camera_to_world.m[row][column] = numbers[1 + 4 * row + column];
      }
    }
    if (!IsRotation(view.camera.camera_to_world)) {
      return Wrong(keys.views, fmt::format("the axes of view {} are no rotation", i));
    }
    read.push_back(std::move(view));
  }
  *views = std::move(read);
  return absl::OkStatus();
}

}  // namespace nerf
