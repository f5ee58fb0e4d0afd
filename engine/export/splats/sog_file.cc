#include "engine/export/splats/sog_file.h"

#include <webp/encode.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "engine/base/export_bytes.h"
#include "engine/export/splats/codebook.h"
#include "engine/export/splats/packed_splats.h"
#include "engine/field/files/zip_file.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace nerf {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSideStep = 4;          // of the pictures' sides, pixels
constexpr size_t kPaletteWidth = 64;  // colors in a row of the palette's picture
constexpr int kWebpEffort = 6;        // 0 to 9
constexpr double kMostPosition = 65535;

// A picture of bytes red, green, blue, alpha.
struct Pixels {
  std::string name;
  int width = 0, height = 0;
  std::vector<uint8_t> rgba;

  Pixels(std::string file, int columns, int rows)
      : name(std::move(file)), width(columns), height(rows) {
    rgba.resize(4 * static_cast<size_t>(width) * static_cast<size_t>(height));
    for (size_t i = 3; i < rgba.size(); i += 4) rgba[i] = 255;
  }
  uint8_t* at(size_t pixel) { return rgba.data() + 4 * pixel; }
};

// Empty where there is too little memory.
std::string LosslessWebp(const Pixels& pixels) {
  WebPConfig config;
  WebPPicture picture;
  WebPMemoryWriter writer;
  if (!WebPConfigInit(&config) || !WebPConfigLosslessPreset(&config, kWebpEffort) ||
      !WebPPictureInit(&picture))
    return "";
  config.exact = 1;  // colors of pixels whose alpha is 0
  WebPMemoryWriterInit(&writer);
  picture.use_argb = 1;
  picture.width = pixels.width;
  picture.height = pixels.height;
  picture.writer = WebPMemoryWrite;
  picture.custom_ptr = &writer;
  const bool is_encoded = WebPPictureImportRGBA(&picture, pixels.rgba.data(), 4 * pixels.width) &&
                          WebPEncode(&config, &picture);
  std::string bytes;
  if (is_encoded) bytes.assign(reinterpret_cast<const char*>(writer.mem), writer.size);
  WebPPictureFree(&picture);
  WebPMemoryWriterClear(&writer);
  return bytes;
}

double LogOf(double x) { return std::copysign(std::log1p(std::abs(x)), x); }

// Numbers of a codebook, with seven digits.
Json NumbersOf(const Codebook& codebook) {
  Json numbers = Json::array();
  for (const float number : codebook) numbers.push_back(std::stod(fmt::format("{:.7g}", number)));
  return numbers;
}

// The pictures of a file and what meta.json says of them.
class SogContent {
 public:
  SogContent(const std::vector<FileSplat>& splats, int degree, ThreadPool* pool)
      : splats_(splats), n_harmonics_((degree + 1) * (degree + 1)), pool_(pool) {
    const double side = std::sqrt(static_cast<double>(splats.size()));
    width_ = kSideStep * static_cast<int>(std::ceil(side / kSideStep));
    const double height = std::ceil(static_cast<double>(splats.size()) / width_);
    height_ = kSideStep * static_cast<int>(std::ceil(height / kSideStep));
    json_ = {{"version", 2},
             {"asset", {{"generator", "nerf-engine export"}}},
             {"count", splats.size()},
             {"antialias", false}};
    AddPositions();
    AddScales();
    AddRotations();
    AddColors();
    if (degree > 0) AddHarmonics(degree);
  }

  std::span<const Pixels> pictures() const { return pictures_; }
  Json& json() { return json_; }

 private:
  void Add(Pixels pixels, const char* part) {
    json_[part]["files"].push_back(pixels.name);
    pictures_.push_back(std::move(pixels));
  }

  void AddPositions() {
    Pixels low("means_l.webp", width_, height_), high("means_u.webp", width_, height_);
    for (int axis = 0; axis < 3; ++axis) {
      double least = INFINITY, most = -INFINITY;
      for (const FileSplat& splat : splats_) {
        least = std::min(least, LogOf(splat.position[axis]));
        most = std::max(most, LogOf(splat.position[axis]));
      }
      const double steps = most > least ? kMostPosition / (most - least) : 0;
      for (size_t i = 0; i < splats_.size(); ++i) {
        const long step = std::lround((LogOf(splats_[i].position[axis]) - least) * steps);
        low.at(i)[axis] = static_cast<uint8_t>(step);
        high.at(i)[axis] = static_cast<uint8_t>(step >> 8);
      }
      json_["means"]["mins"].push_back(least);
      json_["means"]["maxs"].push_back(most);
    }
    Add(std::move(low), "means");
    Add(std::move(high), "means");
  }

  // A picture of three numbers of each splat, by a codebook of them.
  Pixels ByCodebook(const char* name, const char* part,
                    const std::function<float(const FileSplat&, int)>& number_of) {
    std::vector<float> numbers;
    for (const FileSplat& splat : splats_) {
      for (int channel = 0; channel < 3; ++channel) numbers.push_back(number_of(splat, channel));
    }
    Pixels pixels(name, width_, height_);
    const Codebook codebook = MakeCodebook(numbers);
    for (size_t i = 0; i < numbers.size(); ++i)
      pixels.at(i / 3)[i % 3] = NearestIn(codebook, numbers[i]);
    json_[part]["codebook"] = NumbersOf(codebook);
    return pixels;
  }

  // Logarithms, as readers have them.
  void AddScales() {
    const auto scale_of = [](const FileSplat& splat, int axis) {
      return std::log(splat.scale[axis]);
    };
    Add(ByCodebook("scales.webp", "scales", scale_of), "scales");
  }

  // Components w, x, y, z without the largest, whose number alpha says.
  void AddRotations() {
    Pixels pixels("quats.webp", width_, height_);
    for (size_t i = 0; i < splats_.size(); ++i) {
      const Quaternion& q = splats_[i].rotation;
      const SmallestThree packed = SmallestThreeOf({q.w, q.x, q.y, q.z});
      for (int part = 0; part < 3; ++part) {
        const float share = 0.5f + packed.rest[part] * std::sqrt(0.5f);
        pixels.at(i)[part] = static_cast<uint8_t>(std::lround(255 * std::clamp(share, 0.0f, 1.0f)));
      }
      pixels.at(i)[3] = static_cast<uint8_t>(252 + packed.largest);
    }
    Add(std::move(pixels), "quats");
  }

  void AddColors() {
    const auto color_of = [](const FileSplat& splat, int channel) { return splat.colors[channel]; };
    Pixels pixels = ByCodebook("sh0.webp", "sh0", color_of);
    for (size_t i = 0; i < splats_.size(); ++i)
      pixels.at(i)[3] = static_cast<uint8_t>(std::lround(255 * splats_[i].opacity));
    Add(std::move(pixels), "sh0");
  }

  void AddHarmonics(int degree) {
    const auto n_rest = static_cast<size_t>(n_harmonics_ - 1), n_columns = 3 * n_rest;
    std::vector<float> rows;
    for (const FileSplat& splat : splats_)
      rows.insert(rows.end(), splat.colors + 3, splat.colors + 3 + n_columns);
    const Palette palette = MakePalette(rows, n_columns, SogPaletteSize(splats_.size()), pool_);
    const size_t n_colors = palette.rows.size() / n_columns;
    const Codebook codebook = MakeCodebook(palette.rows);
    Pixels colors("shN_centroids.webp", static_cast<int>(kPaletteWidth * n_rest),
                  static_cast<int>((n_colors + kPaletteWidth - 1) / kPaletteWidth));
    for (size_t i = 0; i < palette.rows.size(); ++i)
      colors.at(i / 3)[i % 3] = NearestIn(codebook, palette.rows[i]);
    Pixels labels("shN_labels.webp", width_, height_);
    for (size_t i = 0; i < splats_.size(); ++i) {
      labels.at(i)[0] = static_cast<uint8_t>(palette.labels[i]);
      labels.at(i)[1] = static_cast<uint8_t>(palette.labels[i] >> 8);
    }
    json_["shN"] = {{"count", n_colors}, {"bands", degree}, {"codebook", NumbersOf(codebook)}};
    Add(std::move(colors), "shN");
    Add(std::move(labels), "shN");
  }

  const std::vector<FileSplat>& splats_;
  const int n_harmonics_;
  ThreadPool* const pool_;
  int width_ = 0, height_ = 0;
  std::vector<Pixels> pictures_;
  Json json_;
};

}  // namespace

absl::StatusOr<std::string> SplatsSog(const SplatCloud& cloud, const ExportAxes& axes,
                                      ThreadPool* pool) {
  const std::vector<FileSplat> splats = SplatsInOrder(FileSplats(cloud, axes));
  SogContent content(splats, cloud.degree, pool);
  if (axes.has_origin()) content.json()["origin"] = axes.origin();
  const std::span<const Pixels> pictures = content.pictures();
  std::vector<std::pair<std::string, std::string>> files = {{"meta.json", content.json().dump()}};
  for (const Pixels& picture : pictures) files.emplace_back(picture.name, "");
  pool->ParallelFor(static_cast<int64_t>(pictures.size()), [&](int64_t i, int /*thread*/) {
    files[i + 1].second = LosslessWebp(pictures[i]);
  });
  for (const auto& [name, bytes] : files) {
    if (bytes.empty()) return absl::ResourceExhaustedError("libwebp has too little memory");
  }
  return ZipOf(files);
}

}  // namespace nerf
