#include "engine/scene/posing/pose_picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/scene/pictures/draw_text.h"
#include "engine/scene/posing/label_placer.h"
#include "engine/scene/posing/pose_axes.h"

namespace nerf {
namespace {

constexpr int kNumberScale = 2;  // pixels, of a glyph's dots

// Drawing on a white square.
class Canvas {
 public:
  explicit Canvas(int side) {
    image_.width = image_.height = side;
    image_.n_channels = 3;
    image_.pixels.assign(static_cast<size_t>(side) * side * 3, 255);
  }

  void Dot(double x, double y, const std::array<uint8_t, 3>& color) {
    if (!(x >= 0 && y >= 0 && x < image_.width && y < image_.height)) return;  // NaN, too
    const int column = static_cast<int>(x), row = static_cast<int>(y);
    std::copy(color.begin(), color.end(),
              image_.pixels.begin() + (static_cast<int64_t>(row) * image_.width + column) * 3);
  }
  void Line(double x0, double y0, double x1, double y1, const std::array<uint8_t, 3>& color) {
    const double length = std::max({1.0, std::abs(x1 - x0), std::abs(y1 - y0)});
    if (!(length < 4.0 * image_.width)) return;
    for (double i = 0; i <= length; ++i) {
      Dot(x0 + (x1 - x0) * i / length, y0 + (y1 - y0) * i / length, color);
    }
  }
  // A filled square around the point.
  void Square(double x, double y, int radius, const std::array<uint8_t, 3>& color) {
    for (int dy = -radius; dy <= radius; ++dy) {
      for (int dx = -radius; dx <= radius; ++dx) Dot(x + dx, y + dy, color);
    }
  }
  void Number(const LabelBox& box, int number, const std::array<uint8_t, 3>& color) {
    DrawText(std::to_string(number), static_cast<int>(box.left), static_cast<int>(box.top),
             kNumberScale, color, &image_);
  }
  ImageU8 Take() { return std::move(image_); }
  int side() const { return image_.width; }

 private:
  ImageU8 image_;
};

// A camera in the picture from above: pixels, and its viewing direction with the part across the
// picture only, so that it is short for a camera that looks down.
struct MappedCamera {
  int number = 0;
  double x = 0, y = 0, forward_x = 0, forward_y = 0;
};

// Wedges with the apex, a dot, at the camera. A camera that looks straight down or up has no
// direction in the picture and is a dot alone. Numbers without room are left out.
void DrawCameras(const std::vector<MappedCamera>& cameras, Canvas* canvas) {
  constexpr double kLength = 26, kHalfWidth = 7;  // pixels, of a wedge
  constexpr double kLeastForward = 0.15;
  constexpr std::array<uint8_t, 3> kBlue = {20, 60, 220}, kLightBlue = {190, 205, 250},
                                   kRed = {200, 30, 30}, kGray = {150, 150, 150};
  LabelPlacer placer(canvas->side());
  std::vector<const MappedCamera*> wedges;
  for (const MappedCamera& camera : cameras) {
    for (int i = -2; i <= 2; i += 2) {
      for (int j = -2; j <= 2; j += 2) placer.Keep(camera.x + i, camera.y + j);
    }
    if (std::hypot(camera.forward_x, camera.forward_y) >= kLeastForward) wedges.push_back(&camera);
  }
  const auto to = [&](const MappedCamera& camera, double ahead, double aside) {
    const double length = std::hypot(camera.forward_x, camera.forward_y);
    const double x = camera.forward_x / length, y = camera.forward_y / length;
    return std::pair<double, double>{camera.x + ahead * x - aside * y,
                                     camera.y + ahead * y + aside * x};
  };
  // All of the light insides first: they hide no outline.
  for (const MappedCamera* camera : wedges) {
    for (double aside = -kHalfWidth; aside <= kHalfWidth; aside += 0.5) {
      const auto [x, y] = to(*camera, kLength, aside);
      canvas->Line(camera->x, camera->y, x, y, kLightBlue);
    }
  }
  for (const MappedCamera* camera : wedges) {
    const auto [x0, y0] = to(*camera, kLength, -kHalfWidth);
    const auto [x1, y1] = to(*camera, kLength, kHalfWidth);
    canvas->Line(camera->x, camera->y, x0, y0, kBlue);
    canvas->Line(camera->x, camera->y, x1, y1, kBlue);
    for (double part = 0.2; part <= 1; part += 0.1) {
      for (const double side : {-kHalfWidth, 0.0, kHalfWidth}) {
        const auto [x, y] = to(*camera, part * kLength, part * side);
        placer.Spare(x, y);
      }
    }
  }
  for (const MappedCamera& camera : cameras) canvas->Square(camera.x, camera.y, 2, kBlue);
  for (const MappedCamera& camera : cameras) {
    const std::string number = std::to_string(camera.number);
    const auto box = placer.Place(camera.x, camera.y, -camera.forward_x, -camera.forward_y,
                                  TextWidth(number, kNumberScale), TextHeight(kNumberScale));
    if (!box.has_value()) continue;
    // A number that had to go further away has a line to its camera.
    constexpr double kNear = 9;
    const double x = std::clamp(camera.x, box->left, box->right);
    const double y = std::clamp(camera.y, box->top, box->bottom);
    if (std::hypot(x - camera.x, y - camera.y) > kNear) {
      canvas->Line(camera.x, camera.y, x, y, kGray);
      canvas->Square(camera.x, camera.y, 2, kBlue);
    }
    canvas->Number(*box, camera.number, kRed);
  }
}

// Lower and upper bound of most of the values.
std::pair<double, double> BoundsOfMost(std::vector<double> values) {
  if (values.empty()) return {0, 0};
  std::sort(values.begin(), values.end());
  const size_t cut = values.size() / 20;
  return {values[cut], values[values.size() - 1 - cut]};
}

// Where the scene is in a square picture from above.
class MapFromAbove {
 public:
  MapFromAbove(const PosedModel& model, double side, double margin) : side_(side) {
    PoseVector up = UpOf(model);
    if (Dot(up, up) < 0.5) up = {0, -1, 0};
    std::tie(right_, front_) = PerpendicularAxes(up);
    std::vector<double> xs, ys;
    for (const ColmapPoint& point : model.points) {
      xs.push_back(Dot(point.position, right_));
      ys.push_back(Dot(point.position, front_));
    }
    auto [x0, x1] = BoundsOfMost(xs);
    auto [y0, y1] = BoundsOfMost(ys);
    for (const auto& [file, photo] : model.photos) {
      const double x = Dot(photo.center, right_), y = Dot(photo.center, front_);
      if (xs.empty()) {
        xs.push_back(x);
        x0 = x1 = x;
        y0 = y1 = y;
      }
      x0 = std::min(x0, x);
      x1 = std::max(x1, x);
      y0 = std::min(y0, y);
      y1 = std::max(y1, y);
    }
    const double extent = std::max({x1 - x0, y1 - y0, 1e-9});
    scale_ = (side - 2 * margin) / extent;
    middle_x_ = (x0 + x1) / 2;
    middle_y_ = (y0 + y1) / 2;
  }

  // Pixels. May be NaN or far outside of the picture.
  std::pair<double, double> ToPixels(const PoseVector& at) const {
    return {side_ / 2.0 + (Dot(at, right_) - middle_x_) * scale_,
            side_ / 2.0 - (Dot(at, front_) - middle_y_) * scale_};
  }
  // The part of a direction across the picture, y down.
  std::pair<double, double> DirectionInPicture(const PoseVector& direction) const {
    return {Dot(direction, right_), -Dot(direction, front_)};
  }

 private:
  const double side_;
  PoseVector right_{}, front_{};
  double scale_ = 1, middle_x_ = 0, middle_y_ = 0;
};

}  // namespace

ImageU8 PictureFromAbove(const PoseReport& report, const PosedModel& model) {
  constexpr int kSide = 1000, kMargin = 50;
  Canvas canvas(kSide);
  if (model.photos.empty()) return canvas.Take();
  const MapFromAbove map(model, kSide, kMargin);
  for (const ColmapPoint& point : model.points) {
    const auto [x, y] = map.ToPixels(point.position);
    canvas.Dot(x, y, point.color);
  }
  std::vector<MappedCamera> cameras;
  for (size_t i = 0; i < report.photos.size(); ++i) {
    const auto found = model.photos.find(report.photos[i].file);
    if (found == model.photos.end()) continue;
    const auto [x, y] = map.ToPixels(found->second.center);
    const auto [forward_x, forward_y] = map.DirectionInPicture(found->second.axes[2]);
    cameras.push_back({static_cast<int>(i) + 1, x, y, forward_x, forward_y});
  }
  DrawCameras(cameras, &canvas);
  return canvas.Take();
}

PoseSketch SketchFromAbove(const PosedModel& model) {
  constexpr double kSide = 256, kMargin = 12;
  constexpr size_t kMaxPoints = 300, kMaxCameras = 200;
  PoseSketch sketch;
  if (model.photos.empty()) return sketch;
  const MapFromAbove map(model, kSide, kMargin);
  const auto add = [&](const PoseVector& at, std::string* bytes) {
    const auto [x, y] = map.ToPixels(at);
    if (!(x >= 0 && y >= 0 && x < kSide && y < kSide)) return false;  // NaN, too
    bytes->push_back(static_cast<char>(static_cast<uint8_t>(x)));
    bytes->push_back(static_cast<char>(static_cast<uint8_t>(y)));
    return true;
  };
  const size_t every = model.points.size() / kMaxPoints + 1;
  for (size_t i = 0; i < model.points.size(); i += every) {
    add(model.points[i].position, &sketch.points);
  }
  for (const auto& [file, photo] : model.photos) {
    if (sketch.cameras.size() == 3 * kMaxCameras) break;
    if (!add(photo.center, &sketch.cameras)) continue;
    const auto [x, y] = map.DirectionInPicture(photo.axes[2]);
    const double turn = std::atan2(y, x) / (2 * std::numbers::pi);
    const double byte = std::isfinite(turn) ? std::floor((turn + 1) * 256 + 0.5) : 0;
    sketch.cameras.push_back(static_cast<char>(static_cast<uint8_t>(static_cast<int>(byte) % 256)));
  }
  return sketch;
}

}  // namespace nerf
