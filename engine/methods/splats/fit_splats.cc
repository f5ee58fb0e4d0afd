#include "engine/methods/splats/fit_splats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "engine/base/philox.h"
#include "engine/field/kernels/adam.h"
#include "engine/methods/splats/rasterizer.h"

namespace nerf {
namespace {

// Steps of Adam: of positions in widths of the splat (SplatCloud::widths), the others in units of
// their own.
constexpr float kPositionRate = 0.5f, kScaleRate = 4e-2f, kRotationRate = 5e-3f,
                kOpacityRate = 0.1f, kColorRate = 2e-2f, kHarmonicRate = 2e-3f;
// What rates have fallen to by the last step.
constexpr float kLastPositionRate = 0.01f, kLastRate = 0.1f;
constexpr int kRelocateEvery = 100;        // steps
constexpr float kLastRelocation = 0.7f;    // share of the steps
constexpr float kMinLiveOpacity = 0.005f;  // a splat with less is moved
constexpr int kMaxShares = 50;             // of one place
constexpr float kByte = 1.0f / 255;

// The views in an order that is new in each round.
class ViewOrder {
 public:
  ViewOrder(size_t n, uint64_t seed) : order_(n), seed_(seed) {
    std::iota(order_.begin(), order_.end(), size_t{0});
  }
  size_t At(int step) {
    const auto n = static_cast<uint32_t>(order_.size());
    const auto place = static_cast<uint32_t>(step) % n, round = static_cast<uint32_t>(step) / n;
    const uint32_t word = RandomWords(seed_, RandomUse::kRayPixel, round, place)[0];
    std::swap(order_[place], order_[place + UniformIndex(word, n - place)]);
    return order_[place];
  }

 private:
  std::vector<size_t> order_;
  const uint64_t seed_;
};

// Adam, each number at a rate of its own.
class RowAdam {
 public:
  explicit RowAdam(const SplatCloud& cloud)
      : row_size_(cloud.row_size()), first_(cloud.numbers.size()), second_(cloud.numbers.size()) {
    const auto set = [&](int begin, int n, float rate) {
      std::fill_n(first_rates_.begin() + begin, n, rate);
    };
    set(SplatCloud::kPosition, 3, kPositionRate);
    set(SplatCloud::kLogScale, 3, kScaleRate);
    set(SplatCloud::kRotation, 4, kRotationRate);
    set(SplatCloud::kOpacity, 1, kOpacityRate);
    set(SplatCloud::kColor, 3, kColorRate);
    set(SplatCloud::kColor + 3, 3 * (cloud.n_harmonics() - 1), kHarmonicRate);
  }

  // step from 0 on; share: of all steps that are done.
  void BeginStep(int step, float share) {
    const float t = static_cast<float>(step + 1);
    settings_.correction2 = 1 / (1 - std::pow(settings_.beta2, t));
    const float correction1 = 1 / (1 - std::pow(settings_.beta1, t));
    const float position = std::pow(kLastPositionRate, share) * correction1;
    const float rest = std::pow(kLastRate, share) * correction1;
    for (int i = 0; i < row_size_; ++i) rates_[i] = (i < 3 ? position : rest) * first_rates_[i];
  }

  void Update(size_t splat, float width, const float* gradient, float* row) {
    std::array<float, SplatCloud::kMaxRow> rates = rates_;
    for (int axis = 0; axis < 3; ++axis) rates[SplatCloud::kPosition + axis] *= width;
    kernels::cpu::AdamRow({settings_, row_size_, rates.data(), row,
                           first_.data() + splat * row_size_, second_.data() + splat * row_size_,
                           gradient});
  }

  void Forget(size_t splat) {
    std::fill_n(first_.begin() + splat * row_size_, row_size_, 0.0f);
    std::fill_n(second_.begin() + splat * row_size_, row_size_, 0.0f);
  }

 private:
  const int row_size_;
  kernels::AdamSettings settings_{.beta2 = 0.999f};
  std::array<float, SplatCloud::kMaxRow> first_rates_{}, rates_{};
  std::vector<float> first_, second_;
};

// Calls visit(pixel of the view, pixel of the tile) for each that lies in the picture.
template <class Visit>
void ForPixels(const SplatTile& tile, int width, const Visit& visit) {
  for (int y = 0; y < tile.height; ++y) {
    for (int x = 0; x < tile.width; ++x)
      visit(static_cast<size_t>(tile.top + y) * width + tile.left + x, y * kernels::kSplatTile + x);
  }
}

Vec3 OnWhite(const SplatView& view, size_t pixel) {
  const uint8_t* const rgba = view.rgba.data() + 4 * pixel;
  Vec3 color;
  for (int channel = 0; channel < 3; ++channel)
    color[channel] = static_cast<float>(rgba[channel] + 255 - rgba[3]) * kByte;
  return color;
}

// The mean squared error of a pixel on white where this color is shown.
double ErrorOnWhite(const SplatView& view, size_t pixel, Vec3 shown) {
  const Vec3 wanted = OnWhite(view, pixel);
  double sum = 0;
  for (int channel = 0; channel < 3; ++channel) {
    const float error = std::clamp(shown[channel], 0.0f, 1.0f) - wanted[channel];
    sum += error * error;
  }
  return sum / 3;
}

double PsnrOf(const std::vector<double>& errors) {
  const double mean =
      std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
  return -10 * std::log10(std::max(mean, 1e-10));
}

// Of half of the squared error on the background.
void LossGradients(const SplatView& view, Vec3 background, const SplatTile& tile,
                   const kernels::SplatTilePixels& drawn, kernels::SplatTilePixels* gradients) {
  *gradients = {};
  ForPixels(tile, view.camera.width, [&](size_t pixel, int i) {
    const uint8_t* const rgba = view.rgba.data() + 4 * pixel;
    const float transmittance = drawn.transmittances[i], left = 1 - rgba[3] * kByte;
    float by_transmittance = 0;
    for (int channel = 0; channel < 3; ++channel) {
      const float error = drawn.colors[channel][i] - rgba[channel] * kByte +
                          (transmittance - left) * background[channel];
      gradients->colors[channel][i] = error;
      by_transmittance += error * background[channel];
    }
    gradients->transmittances[i] = by_transmittance;
  });
}

// Moves splats that take next to no light onto others, drawn in proportion to their opacities. The
// n splats at one place get the opacity s with 1 - (1 - s)^n = the old opacity.
void Relocate(uint64_t seed, int step, SplatCloud* cloud, RowAdam* adam) {
  const size_t n = cloud->size();
  std::vector<double> sums(n);
  std::vector<uint32_t> dead;
  double sum = 0;
  for (size_t i = 0; i < n; ++i) {
    const float opacity = OpacityOf(cloud->row(i));
    if (opacity < kMinLiveOpacity) {
      dead.push_back(static_cast<uint32_t>(i));
    } else {
      sum += opacity;
    }
    sums[i] = sum;
  }
  if (sum <= 0 || dead.empty()) return;
  std::vector<uint32_t> sources(dead.size());
  std::vector<uint16_t> n_shares(n, 1);
  for (size_t k = 0; k < dead.size(); ++k) {
    const auto words = RandomWords(seed, RandomUse::kSplatPlace, static_cast<uint32_t>(step),
                                   static_cast<uint32_t>(k));
    const double wanted = sum * (words[0] + words[1] * 0x1p-32) * 0x1p-32;
    const auto found = std::upper_bound(sums.begin(), sums.end(), wanted);
    sources[k] = static_cast<uint32_t>(std::min<size_t>(found - sums.begin(), n - 1));
    n_shares[sources[k]] = static_cast<uint16_t>(std::min(n_shares[sources[k]] + 1, kMaxShares));
  }
  const auto shrink = [&](size_t source) {
    const int shares = n_shares[source];
    if (shares == 1) return;
    float* const row = cloud->row(source);
    const double opacity = std::min(OpacityOf(row), kMaxSplatOpacity);
    const double shared = 1 - std::pow(1 - opacity, 1.0 / shares);
    // So that all of them together take as much light as the one did. The sum alternates: with
    // more shares its terms outgrow a double's precision.
    double below = 0;
    for (int i = 1; i <= shares; ++i) {
      double binomial = 1;
      for (int k = 0; k < i; ++k) {
        below += binomial * (k % 2 == 0 ? 1 : -1) / std::sqrt(k + 1.0) * std::pow(shared, k + 1);
        binomial *= static_cast<double>(i - 1 - k) / (k + 1);
      }
    }
    row[SplatCloud::kOpacity] =
        OpacityNumber(std::clamp(static_cast<float>(shared), kMinLiveOpacity, kMaxSplatOpacity));
    for (int axis = 0; axis < 3; ++axis)
      row[SplatCloud::kLogScale + axis] += static_cast<float>(std::log(opacity / below));
    adam->Forget(source);
    n_shares[source] = 1;
  };
  for (const uint32_t source : sources) shrink(source);
  for (size_t k = 0; k < dead.size(); ++k) {
    std::copy_n(cloud->row(sources[k]), cloud->row_size(), cloud->row(dead[k]));
    cloud->widths[dead[k]] = cloud->widths[sources[k]];
    adam->Forget(dead[k]);
  }
}

}  // namespace

void FitSplats(std::span<const SplatView> views, const SplatFitOptions& options, ThreadPool* pool,
               const std::stop_token& stop, const std::function<void(int n_steps)>& after_step,
               SplatCloud* cloud) {
  ViewOrder order(views.size(), options.seed);
  RowAdam adam(*cloud);
  SplatRasterizer rasterizer(pool);
  for (int step = 0; step < options.n_steps && !stop.stop_requested(); ++step) {
    const float share = static_cast<float>(step) / static_cast<float>(options.n_steps);
    const SplatView& view = views[order.At(step)];
    const auto words = RandomWords(options.seed, RandomUse::kBackground, step, 0);
    const Vec3 background{UniformFloat(words[0]), UniformFloat(words[1]), UniformFloat(words[2])};
    rasterizer.Begin(*cloud, view.camera);
    rasterizer.DrawAndDifferentiate([&](const SplatTile& tile,
                                        const kernels::SplatTilePixels& drawn,
                                        kernels::SplatTilePixels* gradients) {
      LossGradients(view, background, tile, drawn, gradients);
    });
    adam.BeginStep(step, share);
    rasterizer.ForGradients([&](size_t splat, float* gradient) {
      adam.Update(splat, cloud->widths[splat], gradient, cloud->row(splat));
    });
    if (step % kRelocateEvery == kRelocateEvery - 1 && share < kLastRelocation)
      Relocate(options.seed, step, cloud, &adam);
    after_step(step + 1);
  }
}

double SplatPsnr(const SplatCloud& cloud, std::span<const SplatView> views, ThreadPool* pool) {
  SplatRasterizer rasterizer(pool);
  double sum = 0;
  for (const SplatView& view : views) {
    rasterizer.Begin(cloud, view.camera);
    std::vector<double> errors(static_cast<size_t>(view.camera.height) * view.camera.width);
    rasterizer.Draw([&](const SplatTile& tile, const kernels::SplatTilePixels& drawn) {
      ForPixels(tile, view.camera.width, [&](size_t pixel, int i) {
        Vec3 shown;
        for (int channel = 0; channel < 3; ++channel)
          shown[channel] = drawn.colors[channel][i] + drawn.transmittances[i];
        errors[pixel] = ErrorOnWhite(view, pixel, shown);
      });
    });
    sum += PsnrOf(errors);
  }
  return sum / static_cast<double>(views.size());
}

double ViewPsnr(const SplatView& shown, const SplatView& view) {
  std::vector<double> errors(static_cast<size_t>(view.camera.height) * view.camera.width);
  for (size_t pixel = 0; pixel < errors.size(); ++pixel)
    errors[pixel] = ErrorOnWhite(view, pixel, OnWhite(shown, pixel));
  return PsnrOf(errors);
}

}  // namespace nerf
