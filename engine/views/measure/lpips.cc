#include "engine/views/measure/lpips.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>

#include "common/status_macros.h"
#include "engine/base/check.h"
#include "engine/field/files/tensor_file.h"
#include "engine/field/files/torch_file.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// Output channels that are computed together.
constexpr int kStrip = 16;

struct LayerShape {
  int number;  // in torchvision's list
  int n_in, n_out, side, stride, padding;
  bool pooled;  // its input is the maximum over 3x3 pixels, every second one
};
constexpr LayerShape kShapes[] = {{0, 3, 64, 11, 4, 2, false},
                                  {3, 64, 192, 5, 1, 2, true},
                                  {6, 192, 384, 3, 1, 1, true},
                                  {8, 384, 256, 3, 1, 1, false},
                                  {10, 256, 256, 3, 1, 1, false}};

// Mean and deviation of the pictures that AlexNet was trained on, for colors from -1 to 1.
constexpr float kMean[] = {-0.030f, -0.088f, -0.188f};
constexpr float kDeviation[] = {0.458f, 0.448f, 0.450f};

constexpr double kMinLength = 1e-10;  // added to that of features

// [height][width][n_channels]
struct Features {
  int width = 0, height = 0, n_channels = 0;
  std::vector<float> values;

  Features(int w, int h, int n)
      : width(w), height(h), n_channels(n), values(static_cast<size_t>(w) * h * n) {}
  float* Pixel(int x, int y) {
    return values.data() + (static_cast<size_t>(y) * width + x) * n_channels;
  }
  const float* Pixel(int x, int y) const {
    return values.data() + (static_cast<size_t>(y) * width + x) * n_channels;
  }
};

Features FromImage(const ImageU8& image) {
  Features features(image.width, image.height, 3);
  for (size_t i = 0; i < features.values.size(); ++i) {
    const float color = static_cast<float>(image.pixels[i]) / 127.5f - 1;
    features.values[i] = (color - kMean[i % 3]) / kDeviation[i % 3];
  }
  return features;
}

Features Padded(const Features& from, int border) {
  Features padded(from.width + 2 * border, from.height + 2 * border, from.n_channels);
  for (int y = 0; y < from.height; ++y) {
    const float* const row = from.Pixel(0, y);
    std::copy(row, row + static_cast<size_t>(from.width) * from.n_channels,
              padded.Pixel(border, y + border));
  }
  return padded;
}

Features Pooled(const Features& from) {
  Features pooled((from.width - 3) / 2 + 1, (from.height - 3) / 2 + 1, from.n_channels);
  for (int y = 0; y < pooled.height; ++y) {
    for (int x = 0; x < pooled.width; ++x) {
      float* const to = pooled.Pixel(x, y);
      std::fill(to, to + from.n_channels, 0.0f);  // features are not negative
      for (int i = 0; i < 9; ++i) {
        const float* const pixel = from.Pixel(2 * x + i % 3, 2 * y + i / 3);
        for (int c = 0; c < from.n_channels; ++c) to[c] = std::max(to[c], pixel[c]);
      }
    }
  }
  return pooled;
}

// sums[p][o] += sum over k < n of pixels[p][k] * weights[k][o].
template <int n_pixels>
void MultiplyAdd(int n, const float* const (&pixels)[n_pixels], const float* weights,
                 float (&sums)[n_pixels][kStrip]) {
  for (int k = 0; k < n; ++k, weights += kStrip) {
    for (int p = 0; p < n_pixels; ++p) {
      const float value = pixels[p][k];
      for (int o = 0; o < kStrip; ++o) sums[p][o] += value * weights[o];
    }
  }
}

// n_pixels outputs of a strip, from (x, y) on. A kernel's row covers neighboring values of `from`.
template <int n_pixels>
void ConvolveTile(const LayerShape& shape, const Features& from, const float* weights,
                  const float* biases, int x, int y, int first, Features* to) {
  float sums[n_pixels][kStrip];
  for (auto& sum : sums) std::copy(biases, biases + kStrip, sum);
  const int row_values = shape.side * shape.n_in;
  for (int row = 0; row < shape.side; ++row) {
    const float* pixels[n_pixels];
    for (int p = 0; p < n_pixels; ++p)
      pixels[p] = from.Pixel((x + p) * shape.stride, y * shape.stride + row);
    MultiplyAdd<n_pixels>(row_values, pixels, weights + size_t{kStrip} * row_values * row, sums);
  }
  for (int p = 0; p < n_pixels; ++p) {
    for (int o = 0; o < kStrip; ++o) to->Pixel(x + p, y)[first + o] = std::max(0.0f, sums[p][o]);
  }
}

// Convolution and ReLU.
Features Convolved(const LayerShape& shape, const Features& unpadded,
                   const std::vector<float>& weights, const std::vector<float>& biases,
                   ThreadPool* pool) {
  constexpr int kTile = 2;
  const Features from = Padded(unpadded, shape.padding);
  Features to((from.width - shape.side) / shape.stride + 1,
              (from.height - shape.side) / shape.stride + 1, shape.n_out);
  const size_t strip_weights = size_t{kStrip} * shape.side * shape.side * shape.n_in;
  pool->ParallelFor(shape.n_out / kStrip, [&](int64_t strip, int) {
    const int first = kStrip * static_cast<int>(strip);
    const float* const of_strip = weights.data() + strip_weights * strip;
    for (int y = 0; y < to.height; ++y) {
      int x = 0;
      for (; x + kTile <= to.width; x += kTile)
        ConvolveTile<kTile>(shape, from, of_strip, biases.data() + first, x, y, first, &to);
      for (; x < to.width; ++x)
        ConvolveTile<1>(shape, from, of_strip, biases.data() + first, x, y, first, &to);
    }
  });
  return to;
}

double Length(const float* values, int n) {
  double squares = 0;
  for (int c = 0; c < n; ++c) squares += double{values[c]} * values[c];
  return std::sqrt(squares) + kMinLength;
}

double LayerDistance(const Features& a, const Features& b, const std::vector<float>& shares) {
  double sum = 0;
  for (int y = 0; y < a.height; ++y) {
    for (int x = 0; x < a.width; ++x) {
      const float *const of_a = a.Pixel(x, y), *const of_b = b.Pixel(x, y);
      const double scale_a = 1 / Length(of_a, a.n_channels);
      const double scale_b = 1 / Length(of_b, b.n_channels);
      for (int c = 0; c < a.n_channels; ++c) {
        const double difference = of_a[c] * scale_a - of_b[c] * scale_b;
        sum += shares[c] * difference * difference;
      }
    }
  }
  return sum / (static_cast<double>(a.width) * a.height);
}

using Tensors = std::map<std::string, Tensor>;

absl::StatusOr<Tensors> ReadTensors(const std::string& file) {
  if (!file.ends_with(".safetensors")) return ReadTorchFile(file);
  NERF_ASSIGN_OR_RETURN(TensorFile read, ReadTensorFile(file));
  return std::move(read.tensors);
}

absl::StatusOr<std::vector<float>> Floats(const Tensors& tensors, const std::string& name,
                                          const std::vector<uint32_t>& shape,
                                          const std::string& files) {
  const auto wrong = [&](const std::string& what) {
    return absl::InvalidArgumentError(fmt::format("{}: tensor {} {}", files, name, what));
  };
  const auto found = tensors.find(name);
  if (found == tensors.end()) return wrong("is missing");
  const Tensor& tensor = found->second;
  if (tensor.shape != shape) {
    return wrong(fmt::format("has shape [{}], and [{}] is needed", fmt::join(tensor.shape, ", "),
                             fmt::join(shape, ", ")));
  }
  if (tensor.dtype != DType::kF32 && tensor.dtype != DType::kF16 && tensor.dtype != DType::kBF16)
    return wrong("holds no floats");
  std::vector<float> values = ToFloats(tensor);
  for (const float value : values) {
    if (!std::isfinite(value)) return wrong("holds a value that is not finite");
  }
  return values;
}

// From [n_out][n_in][side][side] to strips.
std::vector<float> InStrips(const LayerShape& shape, const std::vector<float>& weights) {
  std::vector<float> strips(weights.size());
  size_t from = 0;
  for (int o = 0; o < shape.n_out; ++o) {
    for (int c = 0; c < shape.n_in; ++c) {
      for (int place = 0; place < shape.side * shape.side; ++place, ++from) {
        const size_t strip = static_cast<size_t>(o / kStrip) * shape.side * shape.side + place;
        strips[(strip * shape.n_in + c) * kStrip + o % kStrip] = weights[from];
      }
    }
  }
  return strips;
}

}  // namespace

absl::StatusOr<Lpips> Lpips::Load(std::span<const std::string> files) {
  Tensors tensors;
  for (const std::string& file : files) {
    NERF_ASSIGN_OR_RETURN(Tensors held, ReadTensors(file));
    tensors.merge(held);
  }
  const std::string names = fmt::format("{}", fmt::join(files, ", "));
  Lpips lpips;
  for (int i = 0; i < kLayers; ++i) {
    const LayerShape& shape = kShapes[i];
    const auto n_in = static_cast<uint32_t>(shape.n_in), n_out = static_cast<uint32_t>(shape.n_out);
    const auto side = static_cast<uint32_t>(shape.side);
    NERF_ASSIGN_OR_RETURN(const std::vector<float> weights,
                          Floats(tensors, fmt::format("features.{}.weight", shape.number),
                                 {n_out, n_in, side, side}, names));
    lpips.layers_[i].weights = InStrips(shape, weights);
    NERF_ASSIGN_OR_RETURN(
        lpips.layers_[i].biases,
        Floats(tensors, fmt::format("features.{}.bias", shape.number), {n_out}, names));
    NERF_ASSIGN_OR_RETURN(
        lpips.layers_[i].shares,
        Floats(tensors, fmt::format("lin{}.model.1.weight", i), {1, n_out, 1, 1}, names));
  }
  return lpips;
}

double Lpips::Distance(const ImageU8& a, const ImageU8& b, ThreadPool* pool) const {
  NERF_CHECK(a.n_channels == 3 && b.n_channels == 3 && a.width == b.width && a.height == b.height);
  if (std::min(a.width, a.height) < kMinSide) return std::numeric_limits<double>::quiet_NaN();
  Features of_a = FromImage(a), of_b = FromImage(b);
  double distance = 0;
  for (int i = 0; i < kLayers; ++i) {
    const Layer& layer = layers_[i];
    for (Features* const features : {&of_a, &of_b}) {
      if (kShapes[i].pooled) *features = Pooled(*features);
      *features = Convolved(kShapes[i], *features, layer.weights, layer.biases, pool);
    }
    distance += LayerDistance(of_a, of_b, layer.shares);
  }
  return distance;
}

}  // namespace nerf
