#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/parallel_for.h"
#include "engine/scene/pictures/image.h"

namespace nerf {

// Learned perceptual distance of two pictures, version 0.1 with AlexNet: their features after each
// of the five convolutions are scaled to length 1; the distance is the sum over the layers of the
// mean over the pixels of the weighted squared difference. 0 for equal pictures. In fp32 on the
// CPU. Source: Zhang et al. 2018, "The Unreasonable Effectiveness of Deep Features as a Perceptual
// Metric".
class Lpips {
 public:
  // Smaller pictures leave nothing for the last layers.
  static constexpr int kMinSide = 31;

  // files: safetensors, by that ending, or files of torch.save. Together they hold the convolutions
  // under the names of torchvision's AlexNet ("features.0.weight" [64, 3, 11, 11],
  // "features.0.bias" [64], ...) and the layers' weights under those of the LPIPS package
  // ("lin0.model.1.weight" [1, 64, 1, 1], ...). Other tensors are left out. Errors: NotFound;
  // InvalidArgument naming files and tensor.
  static absl::StatusOr<Lpips> Load(std::span<const std::string> files);

  // Requires: RGB, equal sizes. NaN where a side is shorter than kMinSide.
  double Distance(const ImageU8& a, const ImageU8& b, ThreadPool* pool) const;

 private:
  static constexpr int kLayers = 5;
  struct Layer {
    std::vector<float> weights;  // [n_out / 16][side][side][n_in][16]
    std::vector<float> biases;   // [n_out]
    std::vector<float> shares;   // [n_out], of the squared differences
  };

  std::array<Layer, kLayers> layers_;
};

}  // namespace nerf
