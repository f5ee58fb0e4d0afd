#include "engine/views/measure/lpips.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/field/files/tensor_file.h"
#include "fmt/format.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using ::absl::StatusCode;

struct LayerShape {
  uint32_t number, n_in, n_out, side;
  int stride, padding;
  bool pooled;
};
constexpr LayerShape kShapes[] = {{0, 3, 64, 11, 4, 2, false},
                                  {3, 64, 192, 5, 1, 2, true},
                                  {6, 192, 384, 3, 1, 1, true},
                                  {8, 384, 256, 3, 1, 1, false},
                                  {10, 256, 256, 3, 1, 1, false}};

void AddRandom(const std::string& name, const std::vector<uint32_t>& shape, float low, float high,
               TensorFile* file) {
  size_t n = 1;
  for (const uint32_t side : shape) n *= side;
  const auto stream = static_cast<uint32_t>(file->tensors.size());
  const std::vector<float> values = RandomFloats(n, low, high, stream);
  file->tensors[name] = TensorFromFloats(values.data(), shape, DType::kF32);
}

struct WeightFiles {
  TensorFile trunk, heads;
};

WeightFiles RandomWeights() {
  WeightFiles files;
  for (uint32_t i = 0; i < 5; ++i) {
    const auto [number, n_in, n_out, side, stride, padding, pooled] = kShapes[i];
    // Keeps the size of the features.
    const float bound = std::sqrt(6.0f / static_cast<float>(n_in * side * side));
    AddRandom(fmt::format("features.{}.weight", number), {n_out, n_in, side, side}, -bound, bound,
              &files.trunk);
    AddRandom(fmt::format("features.{}.bias", number), {n_out}, -0.1f, 0.1f, &files.trunk);
    AddRandom(fmt::format("lin{}.model.1.weight", i), {1, n_out, 1, 1}, 0, 1, &files.heads);
  }
  // Of what classifies pictures.
  AddRandom("classifier.6.bias", {10}, 0, 1, &files.trunk);
  return files;
}

ImageU8 LpipsNoise(int width, int height, unsigned seed) {
  std::mt19937 random(seed);
  ImageU8 image{width, height, 3, {}};
  for (int i = 0; i < width * height * 3; ++i)
    image.pixels.push_back(static_cast<uint8_t>(random() % 256));
  return image;
}

// In the order of PyTorch: [channel][y][x].
using Plane = std::vector<std::vector<double>>;
using Planes = std::vector<Plane>;

Planes Input(const ImageU8& image) {
  constexpr double kMean[] = {-.030, -.088, -.188}, kDeviation[] = {.458, .448, .450};
  Planes planes(3, Plane(image.height, std::vector<double>(image.width)));
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < image.height; ++y) {
      for (int x = 0; x < image.width; ++x)
        planes[c][y][x] = (2 * (image.Pixel(x, y)[c] / 255.0) - 1 - kMean[c]) / kDeviation[c];
    }
  }
  return planes;
}

Planes MaxPooled(const Planes& in) {
  const size_t height = (in[0].size() - 3) / 2 + 1, width = (in[0][0].size() - 3) / 2 + 1;
  Planes out(in.size(), Plane(height, std::vector<double>(width)));
  for (size_t c = 0; c < in.size(); ++c) {
    for (size_t y = 0; y < height; ++y) {
      for (size_t x = 0; x < width; ++x) {
        double largest = in[c][2 * y][2 * x];
        for (size_t i = 0; i < 9; ++i)
          largest = std::max(largest, in[c][2 * y + i / 3][2 * x + i % 3]);
        out[c][y][x] = largest;
      }
    }
  }
  return out;
}

Planes ConvolvedRelu(const LayerShape& shape, const Planes& in, const std::vector<float>& weights,
                     const std::vector<float>& biases) {
  const int side = static_cast<int>(shape.side), rows = static_cast<int>(in[0].size()),
            columns = static_cast<int>(in[0][0].size());
  const int height = (rows + 2 * shape.padding - side) / shape.stride + 1;
  const int width = (columns + 2 * shape.padding - side) / shape.stride + 1;
  Planes out(shape.n_out, Plane(height, std::vector<double>(width)));
  for (size_t o = 0; o < shape.n_out; ++o) {
    for (int i = 0; i < height * width; ++i) {
      double sum = biases[o];
      for (size_t c = 0; c < shape.n_in; ++c) {
        for (int k = 0; k < side * side; ++k) {
          const int y = i / width * shape.stride - shape.padding + k / side;
          const int x = i % width * shape.stride - shape.padding + k % side;
          if (y < 0 || y >= rows || x < 0 || x >= columns) continue;
          sum += in[c][y][x] * weights[(o * shape.n_in + c) * side * side + k];
        }
      }
      out[o][i / width][i % width] = std::max(0.0, sum);
    }
  }
  return out;
}

double ReferenceDistance(const WeightFiles& files, const ImageU8& a, const ImageU8& b) {
  Planes features[2] = {Input(a), Input(b)};
  double distance = 0;
  for (size_t layer = 0; layer < 5; ++layer) {
    const LayerShape& shape = kShapes[layer];
    const auto trunk = [&](const char* what) {
      return ToFloats(files.trunk.tensors.at(fmt::format("features.{}.{}", shape.number, what)));
    };
    for (Planes& of_picture : features) {
      if (shape.pooled) of_picture = MaxPooled(of_picture);
      of_picture = ConvolvedRelu(shape, of_picture, trunk("weight"), trunk("bias"));
    }
    const std::vector<float> shares =
        ToFloats(files.heads.tensors.at(fmt::format("lin{}.model.1.weight", layer)));
    const size_t height = features[0][0].size(), width = features[0][0][0].size();
    for (size_t i = 0; i < height * width; ++i) {
      double lengths[2] = {};
      for (int p = 0; p < 2; ++p) {
        for (const Plane& plane : features[p])
          lengths[p] += std::pow(plane[i / width][i % width], 2);
        lengths[p] = std::sqrt(lengths[p]);
      }
      for (size_t c = 0; c < shape.n_out; ++c) {
        const double difference = features[0][c][i / width][i % width] / lengths[0] -
                                  features[1][c][i / width][i % width] / lengths[1];
        distance += shares[c] * difference * difference / static_cast<double>(height * width);
      }
    }
  }
  return distance;
}

class LpipsTest : public testing::Test {
 protected:
  std::vector<std::string> Write(const WeightFiles& files) {
    EXPECT_THAT(WriteTensorFile(files.trunk, trunk_), IsOk());
    EXPECT_THAT(WriteTensorFile(files.heads, heads_), IsOk());
    return {trunk_, heads_};
  }

  TempDir dir_;
  const std::string trunk_ = dir_ / "trunk.safetensors", heads_ = dir_ / "heads.safetensors";
  ThreadPool pool_{2};
};

TEST_F(LpipsTest, AgreesWithTheReferenceInDoublePrecision) {
  const WeightFiles files = RandomWeights();
  const auto lpips = Lpips::Load(Write(files));
  ASSERT_THAT(lpips, IsOk());
  for (const auto& [width, height] : {std::pair{31, 31}, {52, 43}, {41, 67}}) {
    const ImageU8 a = LpipsNoise(width, height, 1), b = LpipsNoise(width, height, 2);
    const double reference = ReferenceDistance(files, a, b);
    EXPECT_GT(reference, 0.01);
    EXPECT_NEAR(lpips->Distance(a, b, &pool_), reference, 2e-5 * reference) << width;
  }
}

TEST_F(LpipsTest, EqualPicturesHaveNoDistanceAndSmallOnesNone) {
  const auto lpips = Lpips::Load(Write(RandomWeights()));
  ASSERT_THAT(lpips, IsOk());
  const ImageU8 image = LpipsNoise(40, 35, 1);
  EXPECT_EQ(lpips->Distance(image, image, &pool_), 0);
  EXPECT_TRUE(std::isnan(lpips->Distance(LpipsNoise(30, 40, 1), LpipsNoise(30, 40, 2), &pool_)));
}

TEST_F(LpipsTest, BlackFeaturesHaveNoDistance) {
  WeightFiles files = RandomWeights();
  const std::vector<float> biases(64, -1e6f);  // ReLU leaves nothing of the first layer
  files.trunk.tensors["features.0.bias"] = TensorFromFloats(biases.data(), {64}, DType::kF32);
  for (auto& [name, tensor] : files.trunk.tensors) {
    if (name != "features.0.bias" && name.ends_with("bias"))
      std::fill(tensor.bytes.begin(), tensor.bytes.end(), uint8_t{0});
  }
  const auto lpips = Lpips::Load(Write(files));
  ASSERT_THAT(lpips, IsOk());
  EXPECT_EQ(lpips->Distance(LpipsNoise(40, 35, 1), LpipsNoise(40, 35, 2), &pool_), 0);
}

TEST_F(LpipsTest, HostileWeightsAreRefusedNamingFileAndTensor) {
  const auto refused = [&](const WeightFiles& files, const std::string& words) {
    const auto lpips = Lpips::Load(Write(files));
    EXPECT_THAT(lpips, StatusIs(StatusCode::kInvalidArgument, words));
    EXPECT_THAT(lpips, StatusIs(StatusCode::kInvalidArgument, trunk_ + ", " + heads_));
  };
  WeightFiles files = RandomWeights();
  files.trunk.tensors.erase("features.8.bias");
  refused(files, "tensor features.8.bias is missing");
  files = RandomWeights();
  files.heads.tensors["lin2.model.1.weight"].shape = {384};
  refused(files, "tensor lin2.model.1.weight has shape [384], and [1, 384, 1, 1] is needed");
  files = RandomWeights();
  const std::vector<float> biases(192, std::nanf(""));
  files.trunk.tensors["features.3.bias"] = TensorFromFloats(biases.data(), {192}, DType::kF32);
  refused(files, "tensor features.3.bias holds a value that is not finite");
  files = RandomWeights();
  files.trunk.tensors["features.3.bias"].dtype = DType::kI32;
  refused(files, "tensor features.3.bias holds no floats");
}

TEST_F(LpipsTest, FilesThatAreNoWeightsAreRefusedByName) {
  const std::string text = dir_ / "weights.pth", cut = dir_ / "cut.safetensors";
  std::ofstream(text) << "not an archive";
  std::ofstream(cut) << "12";
  const auto load = [](const std::string& file) { return Lpips::Load(std::vector{file}); };
  EXPECT_THAT(load(text), StatusIs(StatusCode::kInvalidArgument, text));
  EXPECT_THAT(load(cut), StatusIs(StatusCode::kInvalidArgument, cut));
  EXPECT_THAT(load(dir_ / "none.pth"), StatusIs(StatusCode::kNotFound, "none.pth"));
}

}  // namespace
}  // namespace nerf
