#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/buffer.h"
#include "engine/base/half_float.h"
#include "engine/base/vec3.h"
#include "engine/field/kernels/field_outputs.h"
#include "engine/field/kernels/stream.h"
#include "engine/field/kernels/wide_layers.h"
#include "engine/methods/mlp/describe/mlp_layout.h"
#include "engine/methods/mlp/network.h"
#include "engine/train/cuda_field.h"

namespace nerf {

// The arrays on a device for the evaluation of a network, all from one allocator. One row a sample,
// or a ray.
template <typename T>
struct MlpCudaArrays {
  MlpCudaArrays(const MlpLayout& layout, size_t n_rays, size_t n_samples, bool with_backward,
                BufferAllocator* from);

  Buffer<T> directions;  // [n_rays][kMlpDirectionWidth]
  Buffer<T> encodings;   // [n][kMlpPositionWidth]
  // Of the trunk, [n][width]: all layers for the backward pass, else two in turn.
  std::vector<Buffer<T>> hidden;
  Buffer<T> features, color_hidden;  // [n][width], [n][width / 2]
  Buffer<T> densities, colors;       // [n][kMlpOutputWidth], of the output layers
  Buffer<T> grad_densities, grad_colors;
  Buffer<T> grad_a, grad_b;  // [n][width]
};

inline CudaFieldFrame MlpFrame(const MlpPlacement& placement) {
  return {placement.center, {placement.scale, placement.scale, placement.scale}};
}

// Evaluates one network of method mlp on a device, a layer at a time. Positions are points to
// encode (MlpPlacement). T is Half or float. weights: all parameters, laid out as the layout says.
template <typename T>
class MlpCudaNetwork {
 public:
  MlpCudaNetwork(const MlpLayout& layout, bool with_backward);

  void Reserve(size_t n_rays, size_t n_samples);
  // Of rays: unit vectors, `stride` bytes from one to the next.
  void EncodeDirections(const kernels::DeviceRange& rays, const Vec3* directions, size_t stride,
                        kernels::Stream stream);
  // scale: MlpPlacement::scale.
  void Density(const kernels::cuda::DensityTargets& to, const Vec3* positions, const T* weights,
               float scale, kernels::Stream stream);

  // Of a network whose output is the shift: where points are looked up.
  void Move(const kernels::DeviceRange& range, const Vec3* positions, const T* weights, Vec3* moved,
            kernels::Stream stream);

  // The samples k of a range: rows rows[k] of positions and ray_of, k if rows is null.
  struct Samples {
    kernels::DeviceRange range;
    const uint32_t* rows = nullptr;
    const uint32_t* ray_of = nullptr;
  };
  // Colors [k] of samples that the last call of Density evaluated. Requires: no rows.
  void Color(const Samples& samples, const T* weights, Vec3* colors, kernels::Stream stream);
  // Colors of any samples; keeps what Backward reads.
  void ForwardAll(const Samples& samples, const Vec3* positions, const T* weights, Vec3* colors,
                  kernels::Stream stream);
  // Writes the gradients by the parameters, kWideParts rows of them, part_stride apart, from those
  // by the outputs of the samples of ForwardAll, or of Density and Color: OutputGradientParams.
  void Backward(const Samples& samples, const float* sigmas, const float* grads, float scale,
                const T* weights, float* gradients, size_t part_stride, kernels::Stream stream);

 private:
  using Input = kernels::cuda::WideInput<T>;
  struct Gradients;  // where Backward puts them

  int HiddenOf(int layer) const { return with_backward_ ? layer : layer % 2; }
  void Trunk(const kernels::DeviceRange& range, const uint32_t* rows, const Vec3* positions,
             const T* weights, kernels::Stream stream);
  void BackwardTrunk(const kernels::DeviceRange& range, const Gradients& to);
  void Layer(const MlpLayer& layer, const kernels::DeviceRange& range, const Input& first,
             const Input& second, bool relu, const T* weights, T* outputs, kernels::Stream stream);

  const MlpLayout layout_;
  const bool with_backward_;
  MlpCudaArrays<T> arrays_;
};

// A network's parameters in the precision that it is evaluated in.
template <typename T>
Buffer<T> ParametersOnDevice(std::span<const float> parameters, kernels::Stream stream);

}  // namespace nerf
