#include "tests/bench/line_plot.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "tests/bench/pixel_font.h"

namespace nerf {
namespace {

constexpr int kSuperSampling = 3;  // each pixel is the mean of 3 x 3
constexpr int kTextScale = 2;      // pixels per pixel of the font
constexpr int kLetter = (kGlyphWidth + 1) * kTextScale;
constexpr int kTextHeight = kGlyphHeight * kTextScale;
constexpr int kLeft = 90, kRight = 30, kTop = 60, kBottom = 80;  // margins, pixels
constexpr double kLineWidth = 2.5, kMarkerRadius = 5;
constexpr int kMaxYTicks = 9;

struct Color {
  uint8_t r, g, b;
};
constexpr Color kInk{40, 40, 40}, kGrid{225, 225, 225};
// Distinguishable with red-green color blindness too.
constexpr Color kSeriesColors[] = {
    {0, 90, 170}, {215, 95, 0}, {0, 140, 100}, {180, 60, 130}, {110, 110, 110}};

// A canvas with coordinates in pixels of the final picture.
class Canvas {
 public:
  Canvas(int width, int height)
      : width_(width * kSuperSampling),
        height_(height * kSuperSampling),
        pixels_(static_cast<size_t>(width_) * height_ * 3, 255) {}

  void Rectangle(double x0, double y0, double x1, double y1, Color color) {
    Fill(x0, y0, x1, y1, color, [](double, double) { return true; });
  }
  void Disc(double x, double y, double radius, Color color) {
    Fill(x - radius, y - radius, x + radius, y + radius, color, [=](double px, double py) {
      return (px - x) * (px - x) + (py - y) * (py - y) <= radius * radius;
    });
  }
  void Line(double x0, double y0, double x1, double y1, double width, Color color) {
    const double dx = x1 - x0, dy = y1 - y0, length2 = std::max(dx * dx + dy * dy, 1e-12);
    const double r = width / 2;
    Fill(std::min(x0, x1) - r, std::min(y0, y1) - r, std::max(x0, x1) + r, std::max(y0, y1) + r,
         color, [=](double px, double py) {
           const double t = std::clamp(((px - x0) * dx + (py - y0) * dy) / length2, 0.0, 1.0);
           return std::hypot(px - x0 - t * dx, py - y0 - t * dy) <= r;
         });
  }
  // (x, y): the upper left corner.
  void Text(double x, double y, const std::string& text, Color color) {
    for (const char c : text) {
      const auto rows = Glyph(c);
      for (int row = 0; row < kGlyphHeight; ++row) {
        for (int column = 0; column < kGlyphWidth; ++column) {
          if (((rows[row] >> (kGlyphWidth - 1 - column)) & 1) == 0) continue;
          const double left = x + column * kTextScale, top = y + row * kTextScale;
          Rectangle(left, top, left + kTextScale, top + kTextScale, color);
        }
      }
      x += kLetter;
    }
  }

  ImageU8 Picture() const {
    ImageU8 image{width_ / kSuperSampling, height_ / kSuperSampling, 3, {}};
    image.pixels.reserve(pixels_.size() / (kSuperSampling * kSuperSampling));
    for (int y = 0; y < image.height; ++y) {
      for (int x = 0; x < image.width; ++x) {
        for (int c = 0; c < 3; ++c) {
          int sum = 0;
          for (int i = 0; i < kSuperSampling * kSuperSampling; ++i) {
            sum += pixels_[Index(x * kSuperSampling + i % kSuperSampling,
                                 y * kSuperSampling + i / kSuperSampling) +
                           static_cast<size_t>(c)];
          }
          image.pixels.push_back(static_cast<uint8_t>(sum / (kSuperSampling * kSuperSampling)));
        }
      }
    }
    return image;
  }

 private:
  size_t Index(int x, int y) const { return (static_cast<size_t>(y) * width_ + x) * 3; }

  template <typename Inside>
  void Fill(double x0, double y0, double x1, double y1, Color color, Inside inside) {
    const auto bound = [](double value, int size) {
      return std::clamp(static_cast<int>(std::lround(value * kSuperSampling)), 0, size);
    };
    for (int y = bound(y0, height_); y < bound(y1, height_); ++y) {
      for (int x = bound(x0, width_); x < bound(x1, width_); ++x) {
        if (!inside((x + 0.5) / kSuperSampling, (y + 0.5) / kSuperSampling)) continue;
        uint8_t* pixel = &pixels_[Index(x, y)];
        pixel[0] = color.r;
        pixel[1] = color.g;
        pixel[2] = color.b;
      }
    }
  }

  int width_, height_;
  std::vector<uint8_t> pixels_;
};

double TextWidth(const std::string& text) {
  return static_cast<double>(text.size()) * kLetter - kTextScale;
}

// Maps values to the canvas.
struct Axes {
  double x_low = 0, x_high = 1;  // logarithms
  double y_low = 0, y_high = 1;
  double left = kLeft, right = 0, top = kTop, bottom = 0;

  double X(double x) const {
    return left + (right - left) * (std::log(x) - x_low) / (x_high - x_low);
  }
  double Y(double y) const { return bottom - (bottom - top) * (y - y_low) / (y_high - y_low); }
};

using Point = std::pair<double, double>;

std::vector<Point> FinitePoints(const PlotSeries& series) {
  std::vector<Point> points;
  for (size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i) {
    if (std::isfinite(series.x[i]) && series.x[i] > 0 && std::isfinite(series.y[i])) {
      points.emplace_back(series.x[i], series.y[i]);
    }
  }
  return points;
}

void DrawAxes(const PlotOptions& options, const Axes& axes, const std::set<double>& x_ticks,
              const std::vector<double>& y_ticks, Canvas* canvas) {
  for (const double tick : y_ticks) {
    const double y = axes.Y(tick);
    canvas->Line(axes.left, y, axes.right, y, 1, kGrid);
    const std::string label = fmt::format("{:g}", tick);
    canvas->Text(axes.left - 12 - TextWidth(label), y - kTextHeight / 2.0, label, kInk);
  }
  double label_end = 0;
  for (const double tick : x_ticks) {
    const double x = axes.X(tick);
    canvas->Line(x, axes.top, x, axes.bottom, 1, kGrid);
    const std::string label = fmt::format("{:g}", tick);
    const double begin = x - TextWidth(label) / 2;
    if (begin < label_end + kLetter) continue;  // would overlap the previous label
    label_end = begin + TextWidth(label);
    canvas->Text(begin, axes.bottom + 10, label, kInk);
  }
  canvas->Line(axes.left, axes.top, axes.left, axes.bottom, 2, kInk);
  canvas->Line(axes.left, axes.bottom, axes.right, axes.bottom, 2, kInk);
  canvas->Text((axes.left + axes.right - TextWidth(options.title)) / 2, 14, options.title, kInk);
  canvas->Text((axes.left + axes.right - TextWidth(options.x_label)) / 2, axes.bottom + 44,
               options.x_label, kInk);
  canvas->Text(10, kTop - kTextHeight - 12, options.y_label, kInk);
}

void DrawSeries(const std::vector<Point>& points, const Axes& axes, Color color, bool values,
                Canvas* canvas) {
  for (size_t i = 0; i + 1 < points.size(); ++i) {
    canvas->Line(axes.X(points[i].first), axes.Y(points[i].second), axes.X(points[i + 1].first),
                 axes.Y(points[i + 1].second), kLineWidth, color);
  }
  for (const auto& [x, y] : points) canvas->Disc(axes.X(x), axes.Y(y), kMarkerRadius, color);
  if (!values) return;
  for (const auto& [x, y] : points) {
    const std::string label = fmt::format("{:.1f}", y);
    const double begin = std::min(axes.X(x) - TextWidth(label) / 2, axes.right - TextWidth(label));
    canvas->Text(begin, axes.Y(y) - kTextHeight - 12, label, kInk);
  }
}

}  // namespace

std::vector<double> RoundTicks(double low, double high, int max_ticks) {
  if (high <= low) high = low + 1;
  const double wanted = (high - low) / std::max(1, max_ticks - 2);
  double step = std::pow(10, std::floor(std::log10(wanted)));
  for (const double factor : {1, 2, 5, 10}) {
    if (factor * step >= wanted * (1 - 1e-9)) {
      step *= factor;
      break;
    }
  }
  std::vector<double> ticks;
  for (double i = std::floor(low / step + 1e-9); (i - 1) * step < high - 1e-9 * step; ++i) {
    ticks.push_back(i * step);
  }
  return ticks;
}

ImageU8 DrawLinePlot(const PlotOptions& options, const std::vector<PlotSeries>& series) {
  std::set<double> x_ticks;
  double low = INFINITY, high = -INFINITY;
  for (const PlotSeries& one : series) {
    for (const auto& [x, y] : FinitePoints(one)) {
      x_ticks.insert(x);
      low = std::min(low, y);
      high = std::max(high, y);
    }
  }
  if (x_ticks.empty()) {
    x_ticks = {1, 10};
    low = 0, high = 1;
  }
  const std::vector<double> y_ticks = RoundTicks(low, high, kMaxYTicks);
  Axes axes;
  axes.right = options.width - kRight;
  axes.bottom = options.height - kBottom;
  const double spread = std::log(*x_ticks.rbegin() / *x_ticks.begin());
  const double margin = spread > 0 ? 0.04 * spread : 1;
  axes.x_low = std::log(*x_ticks.begin()) - margin;
  axes.x_high = std::log(*x_ticks.rbegin()) + margin;
  axes.y_low = y_ticks.front();
  axes.y_high = y_ticks.back();

  Canvas canvas(options.width, options.height);
  DrawAxes(options, axes, x_ticks, y_ticks, &canvas);
  double legend_y = axes.bottom - 14;
  for (size_t i = series.size(); i-- > 0;) {
    const Color color = kSeriesColors[i % std::size(kSeriesColors)];
    DrawSeries(FinitePoints(series[i]), axes, color, series.size() == 1, &canvas);
    if (series[i].name.empty()) continue;
    legend_y -= kTextHeight + 10;
    const double text_x = axes.right - 14 - TextWidth(series[i].name);
    canvas.Line(text_x - 40, legend_y + kTextHeight / 2.0, text_x - 10,
                legend_y + kTextHeight / 2.0, kLineWidth, color);
    canvas.Text(text_x, legend_y, series[i].name, kInk);
  }
  return canvas.Picture();
}

}  // namespace nerf
