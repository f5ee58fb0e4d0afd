#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/aabb.h"
#include "engine/base/buffer.h"
#include "engine/base/vec3.h"
#include "engine/methods/mlp/describe/mlp_layout.h"

namespace nerf {

// Where the field lies: positions are encoded as (position - center) * scale, which maps the
// outermost box to +-1.5, so that Blender scenes are encoded in their own coordinates; densities
// are the network's times scale.
struct MlpPlacement {
  Vec3 center;
  float scale = 1;
};
MlpPlacement MlpPlacementOf(const Aabb& outer_box);

// The encoding of a position [kMlpPositionWidth] or direction [kMlpDirectionWidth]: its
// coordinates, then sin(2^k x) and cos(2^k x) for k = 0, 1, ..., each of all three coordinates.
// Source: Mildenhall et al. 2020, eq. 4, without its factor pi, as its authors' code has it.
void MlpEncode(Vec3 point, int n_octaves, int width, float* encoding);

// The encoding of a time [kMlpTimeWidth], likewise.
void MlpEncodeTime(float time, float* encoding);

// What layers read besides the weights: transposed weights for the backward pass, and both in pairs
// of bf16 where the process multiplies in bf16. Follows one network's parameters.
class MlpDerived {
 public:
  // with_backward: also what the backward pass reads.
  MlpDerived(const MlpLayout& layout, bool with_backward);
  void Derive(const MlpLayout& layout, const float* parameters);

  const float* transposed() const { return transposed_.data(); }
  // Null in fp32. A layer's pairs begin at half of its offset.
  const uint32_t* pairs() const { return pairs_.empty() ? nullptr : pairs_.data(); }
  const uint32_t* transposed_pairs() const {
    return transposed_pairs_.empty() ? nullptr : transposed_pairs_.data();
  }

 private:
  Buffer<float> transposed_;
  Buffer<uint32_t> pairs_, transposed_pairs_;
};

// A view of one network. Borrows everything.
struct MlpNetwork {
  const MlpLayout* layout = nullptr;
  const float* parameters = nullptr;
  const MlpDerived* derived = nullptr;
  MlpPlacement placement;
};

// One thread's evaluation of a network: forward pass with its activations, and backward pass.
class MlpEvaluator {
 public:
  // with_backward: rows are kept for Backward. The network's parameters may change between chunks.
  MlpEvaluator(const MlpNetwork& network, bool with_backward);

  // Encodes the directions of rays [n_rays].
  void Begin(int n_rays, const Vec3* directions);
  void Reserve(int n_rows, int n_kept);
  // Densities of rows [begin, begin + n). times [n]: of the rows, for a network that reads them.
  void Density(int begin, int n, const Vec3* positions, float* sigmas,
               const float* times = nullptr);
  // Of a network whose output is the shift: where the points are looked up, 0 away at time 0.
  void Move(int n, const Vec3* positions, const float* times, Vec3* moved);
  void MoveRow(int from, int to);
  // Colors of rows [0, n).
  void Color(int n, const int* ray_of, Vec3* colors);
  // Colors of the rows rows[0], ..., rows[n - 1] instead, which replaces what Color left.
  void ColorOf(int n, const int* rows, const int* ray_of, Vec3* colors);
  // Adds the gradients by the parameters to `gradients`, laid out as they are. Uses up the rows.
  void Backward(int n, const int* ray_of, const float* grad_sigmas, const Vec3* grad_colors,
                float* gradients);

 private:
  // Leaves the output layer behind the trunk in outputs of rows [begin, begin + n).
  float* Outputs(int begin, int n, const Vec3* positions, const float* times);
  void ForwardColor(int n, const float* trunk_rows, const int* ray_of, Vec3* colors);
  void BackwardColor(int n, const int* ray_of, const Vec3* grad_colors, float* gradients);
  void BackwardTrunk(int n, float* gradients);
  // Outputs of a trunk layer. Without a backward pass the last layer's alone are kept.
  float* Hidden(int layer, int row) {
    const bool is_last = layer == network_.layout->depth - 1;
    const int buffer = with_backward_ ? layer : is_last ? 2 : layer % 2;
    return hidden_[buffer].data() + static_cast<size_t>(row) * network_.layout->width;
  }
  void Multiply(const MlpLayer& layer, int first_input, int n_in, int n, const float* inputs,
                float* outputs, bool relu) const;
  void AddWeightGradient(const MlpLayer& layer, int first_input, int n_in, int n,
                         const float* inputs, const float* grad_outputs, float* gradients) const;
  void InputGradient(const MlpLayer& layer, int first_input, int n_in, int n,
                     const float* grad_outputs, const float* gate, float* grad_inputs) const;

  const MlpNetwork network_;
  const bool with_backward_;
  int capacity_ = 0;
  Buffer<float> directions_;       // [n_rays][kMlpDirectionWidth]
  Buffer<float> direction_terms_;  // [n_rays][width / 2]
  int n_rays_ = 0;
  Buffer<float> encodings_;               // [rows][input_width]
  std::vector<Buffer<float>> hidden_;     // [rows][width] each, see Hidden
  Buffer<float> densities_;               // [rows][kMlpOutputWidth], of the output layer
  Buffer<float> features_;                // [rows][width]
  Buffer<float> color_hidden_, outputs_;  // [rows][width / 2], [rows][kMlpOutputWidth]
  Buffer<float> gathered_;                // [rows][width]
  Buffer<float> grad_a_, grad_b_;         // [rows][width]
  Buffer<float> grad_directions_;         // [rows][kMlpDirectionWidth]: encodings by row
};

}  // namespace nerf
