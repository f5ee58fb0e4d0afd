#include "engine/scene/read/colmap_points.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace nerf {
namespace {

constexpr double kMaxPosition = 1e9;  // of a coordinate; points beyond it are left out

}  // namespace

absl::StatusOr<std::vector<ColmapPoint>> ParseColmapPoints(std::string_view bytes) {
  size_t at = 0;
  const auto read = [&](void* value, size_t size) {
    if (bytes.size() - at < size) return false;
    std::memcpy(value, bytes.data() + at, size);
    at += size;
    return true;
  };
  constexpr size_t kPointBytes = 8 + 3 * 8 + 3 + 8 + 8, kTrackBytes = 8;
  uint64_t n_points = 0;
  const auto cut_off = [&] {
    return absl::DataLossError(absl::StrCat("points3D.bin is cut off at byte ", at));
  };
  if (!read(&n_points, sizeof(n_points))) return cut_off();
  if (n_points > (bytes.size() - at) / kPointBytes) {
    return absl::DataLossError(
        absl::StrCat("points3D.bin says it has ", n_points, " points, too many for its size"));
  }
  std::vector<ColmapPoint> points;
  points.reserve(n_points);
  for (uint64_t i = 0; i < n_points; ++i) {
    uint64_t n_images = 0;
    ColmapPoint point;
    if (!read(&point.id, sizeof(point.id)) || !read(point.position.data(), 3 * sizeof(double)) ||
        !read(point.color.data(), 3) || !read(&point.error, sizeof(double)) ||
        !read(&n_images, sizeof(n_images)) || n_images > (bytes.size() - at) / kTrackBytes) {
      return cut_off();
    }
    bool is_usable = std::isfinite(point.error);
    for (const double p : point.position) is_usable &= std::abs(p) <= kMaxPosition;
    for (uint64_t j = 0; j < n_images; ++j) {
      uint32_t image_and_feature[2];
      if (!read(image_and_feature, sizeof(image_and_feature))) return cut_off();
      point.images.push_back(image_and_feature[0]);
    }
    if (is_usable) points.push_back(std::move(point));
  }
  return points;
}

absl::StatusOr<std::vector<ColmapPoint>> ParseColmapPointsText(std::string_view text) {
  constexpr size_t kPositionWord = 1, kColorWord = 4, kErrorWord = 7, kTrackWord = 8;
  std::vector<ColmapPoint> points;
  int number = 0;
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    ++number;
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty() || words[0][0] == '#') continue;
    ColmapPoint point;
    bool is_good = words.size() >= kTrackWord && words.size() % 2 == 0 &&
                   absl::SimpleAtoi(words[0], &point.id);
    for (size_t i = 0; is_good && i < 3; ++i) {
      int color = 0;
      is_good = absl::SimpleAtod(words[kPositionWord + i], &point.position[i]) &&
                absl::SimpleAtoi(words[kColorWord + i], &color) && color >= 0 && color <= 255;
      point.color[i] = static_cast<uint8_t>(color);
    }
    is_good = is_good && absl::SimpleAtod(words[kErrorWord], &point.error);
    for (size_t i = kTrackWord; is_good && i < words.size(); i += 2) {
      uint32_t image = 0;
      is_good = absl::SimpleAtoi(words[i], &image);
      point.images.push_back(image);
    }
    if (!is_good) {
      return absl::InvalidArgumentError(absl::StrCat(
          "points3D.txt: line ", number, " must be POINT3D_ID X Y Z R G B ERROR and the track"));
    }
    bool is_usable = std::isfinite(point.error);
    for (const double p : point.position) is_usable &= std::abs(p) <= kMaxPosition;
    if (is_usable) points.push_back(std::move(point));
  }
  return points;
}

}  // namespace nerf
