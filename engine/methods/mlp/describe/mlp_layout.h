#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/base/config/train_config.h"

namespace nerf {

// Sizes of the network of method mlp: position encoding -> trunk of `depth` ReLU layers -> density;
// trunk -> feature -> (feature, direction encoding) -> ReLU layer of width / 2 -> color.
// Source: Mildenhall et al. 2020, figure 7. With MlpTime::kInput the trunk reads the time's
// encoding behind the position's; with kWarp a second network, a trunk and one layer behind it,
// reads both. Source: Pumarola et al. 2021, "D-NeRF".
inline constexpr int kMlpPositionOctaves = 10, kMlpDirectionOctaves = 4, kMlpTimeOctaves = 4;
// The coordinates, then sine and cosine of each octave, then zeros up to a multiple of 16.
inline constexpr int kMlpPositionWidth = 64;   // 63 used
inline constexpr int kMlpDirectionWidth = 32;  // 27 used
inline constexpr int kMlpTimeWidth = 16;       // 9 used
inline constexpr int kMlpOutputWidth = 16;     // of density (1 used), color and shift (3 used)

// A layer: weights [n_in][n_out] and biases [n_out], where they begin among the parameters.
struct MlpLayer {
  std::string name;
  int n_in = 0, n_out = 0, n_out_used = 0;
  size_t weights = 0, biases = 0;
};

// What a network gives: density and color, or by how much points are moved.
enum class MlpOutputs { kRadiance, kShift };

// The layers of one network in the order of its parameters.
struct MlpLayout {
  // prefix: of the layers' names in files.
  MlpLayout(const TrainConfig& config, const std::string& prefix,
            MlpOutputs outputs = MlpOutputs::kRadiance);

  MlpOutputs outputs;
  int width, depth;
  int skip;  // this layer of the trunk reads the encodings, then the layer before it
  bool feature_relu;
  bool reads_time;
  std::vector<MlpLayer> layers;  // trunk, density, feature, color_hidden, color; or trunk, shift
  size_t size = 0;               // parameters of all

  // The same network without the time's encoding, which is constant in a view (AtTime).
  MlpLayout WithoutTime() const;
  // Parameters of WithoutTime that give at all points what `parameters` give at a time with this
  // encoding [kMlpTimeWidth]: its part of the sums joins the biases.
  std::vector<float> AtTime(const float* parameters, const float* encoding) const;

  // Of the position's encoding, with the time's.
  int input_width() const { return kMlpPositionWidth + (reads_time ? kMlpTimeWidth : 0); }
  const MlpLayer& trunk(int i) const { return layers[i]; }
  // Behind the trunk: the density or the shift.
  const MlpLayer& output() const { return layers[depth]; }
  const MlpLayer& feature() const { return layers[depth + 1]; }
  // Reads the feature, then the direction's encoding.
  const MlpLayer& color_hidden() const { return layers[depth + 2]; }
  const MlpLayer& color() const { return layers[depth + 3]; }
};

// The networks that a config trains: one, coarse and fine, or the field's and the warp's.
std::vector<MlpLayout> MlpNetworks(const TrainConfig& config);

}  // namespace nerf
