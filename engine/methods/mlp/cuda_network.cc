#include "engine/methods/mlp/cuda_network.h"

#include <algorithm>
#include <utility>

#include "engine/field/kernels/cuda/device.h"

namespace nerf {
namespace {

namespace cuda = kernels::cuda;

static_assert(kMlpOutputWidth == cuda::kOutputWidth);

}  // namespace

template <typename T>
MlpCudaArrays<T>::MlpCudaArrays(const MlpLayout& layout, size_t n_rays, size_t n_samples,
                                bool with_backward, BufferAllocator* from)
    : directions(kMlpDirectionWidth * n_rays, from),
      encodings(kMlpPositionWidth * n_samples, from),
      features(layout.width * n_samples, from),
      color_hidden(layout.width / 2 * n_samples, from),
      densities(kMlpOutputWidth * n_samples, from),
      colors(kMlpOutputWidth * n_samples, from),
      grad_densities(with_backward ? kMlpOutputWidth * n_samples : 0, from),
      grad_colors(with_backward ? kMlpOutputWidth * n_samples : 0, from),
      grad_a(with_backward ? layout.width * n_samples : 0, from),
      grad_b(with_backward ? layout.width * n_samples : 0, from) {
  const int n_hidden = with_backward ? layout.depth : 2;
  for (int i = 0; i < n_hidden; ++i) hidden.emplace_back(layout.width * n_samples, from);
}

template <typename T>
MlpCudaNetwork<T>::MlpCudaNetwork(const MlpLayout& layout, bool with_backward)
    : layout_(layout),
      with_backward_(with_backward),
      arrays_(layout, 0, 0, with_backward, cuda::DeviceAllocator()) {}

// The old arrays go first.
template <typename T>
void MlpCudaNetwork<T>::Reserve(size_t n_rays, size_t n_samples) {
  arrays_ = MlpCudaArrays<T>(layout_, 0, 0, with_backward_, cuda::DeviceAllocator());
  arrays_ = MlpCudaArrays<T>(layout_, n_rays, n_samples, with_backward_, cuda::DeviceAllocator());
}

template <typename T>
void MlpCudaNetwork<T>::EncodeDirections(const kernels::DeviceRange& rays, const Vec3* directions,
                                         size_t stride, kernels::Stream stream) {
  cuda::FrequencyEncode(cuda::FrequencyEncodeParams<T>{.range = rays,
                                                       .points = directions,
                                                       .stride = stride,
                                                       .n_octaves = kMlpDirectionOctaves,
                                                       .width = kMlpDirectionWidth,
                                                       .encodings = arrays_.directions.data()},
                        stream);
}

template <typename T>
void MlpCudaNetwork<T>::Layer(const MlpLayer& layer, const kernels::DeviceRange& range,
                              const Input& first, const Input& second, bool relu, const T* weights,
                              T* outputs, kernels::Stream stream) {
  cuda::WideForward(cuda::WideForwardParams<T>{.range = range,
                                               .inputs = {first, second},
                                               .n_out = layer.n_out,
                                               .weights = weights + layer.weights,
                                               .biases = weights + layer.biases,
                                               .relu = relu,
                                               .outputs = outputs},
                    stream);
}

// Leaves the output layer behind the trunk in densities.
template <typename T>
void MlpCudaNetwork<T>::Trunk(const kernels::DeviceRange& range, const uint32_t* rows,
                              const Vec3* positions, const T* weights, kernels::Stream stream) {
  cuda::FrequencyEncode(cuda::FrequencyEncodeParams<T>{.range = range,
                                                       .rows = rows,
                                                       .points = positions,
                                                       .n_octaves = kMlpPositionOctaves,
                                                       .width = kMlpPositionWidth,
                                                       .encodings = arrays_.encodings.data()},
                        stream);
  const Input encodings{arrays_.encodings.data(), kMlpPositionWidth};
  Input before = encodings;
  for (int l = 0; l < layout_.depth; ++l) {
    T* const outputs = arrays_.hidden[HiddenOf(l)].data();
    const bool skips = l > 0 && l == layout_.skip;
    Layer(layout_.trunk(l), range, skips ? encodings : before, skips ? before : Input(),
          /*relu=*/true, weights, outputs, stream);
    before = {outputs, layout_.width};
  }
  Layer(layout_.output(), range, before, {}, /*relu=*/false, weights, arrays_.densities.data(),
        stream);
}

template <typename T>
void MlpCudaNetwork<T>::Density(const cuda::DensityTargets& to, const Vec3* positions,
                                const T* weights, float scale, kernels::Stream stream) {
  Trunk(to.range, nullptr, positions, weights, stream);
  cuda::ReluDensity(
      cuda::ReluDensityParams<T>{.to = to, .outputs = arrays_.densities.data(), .scale = scale},
      stream);
}

template <typename T>
void MlpCudaNetwork<T>::Move(const kernels::DeviceRange& range, const Vec3* positions,
                             const T* weights, Vec3* moved, kernels::Stream stream) {
  Trunk(range, nullptr, positions, weights, stream);
  cuda::AddShift(cuda::AddShiftParams<T>{.range = range,
                                         .positions = positions,
                                         .outputs = arrays_.densities.data(),
                                         .moved = moved},
                 stream);
}

template <typename T>
void MlpCudaNetwork<T>::Color(const Samples& samples, const T* weights, Vec3* colors,
                              kernels::Stream stream) {
  const Input trunk{arrays_.hidden[HiddenOf(layout_.depth - 1)].data(), layout_.width};
  const Input directions{arrays_.directions.data(), kMlpDirectionWidth, samples.rows,
                         samples.ray_of};
  Layer(layout_.feature(), samples.range, trunk, {}, layout_.feature_relu, weights,
        arrays_.features.data(), stream);
  Layer(layout_.color_hidden(), samples.range, {arrays_.features.data(), layout_.width}, directions,
        /*relu=*/true, weights, arrays_.color_hidden.data(), stream);
  Layer(layout_.color(), samples.range, {arrays_.color_hidden.data(), layout_.width / 2}, {},
        /*relu=*/false, weights, arrays_.colors.data(), stream);
  cuda::SigmoidColor(
      cuda::SigmoidColorParams<T>{
          .range = samples.range, .outputs = arrays_.colors.data(), .colors = colors},
      stream);
}

template <typename T>
void MlpCudaNetwork<T>::ForwardAll(const Samples& samples, const Vec3* positions, const T* weights,
                                   Vec3* colors, kernels::Stream stream) {
  Trunk(samples.range, samples.rows, positions, weights, stream);
  Color(samples, weights, colors, stream);
}

template <typename T>
struct MlpCudaNetwork<T>::Gradients {
  const T* weights;
  float* gradients;
  size_t part_stride;
  kernels::Stream stream;

  // Those of the rows of a layer's weights that read `input`, from row first_input on. The biases
  // come with the first of them.
  void Add(const MlpLayer& layer, const kernels::DeviceRange& range, const Input& input,
           int first_input, const T* grad_outputs) const {
    cuda::WideGradient(
        cuda::WideGradientParams<T>{
            .range = range,
            .input = input,
            .n_out = layer.n_out,
            .grad_outputs = grad_outputs,
            .part_stride = part_stride,
            .grad_weights =
                gradients + layer.weights + static_cast<size_t>(first_input) * layer.n_out,
            .grad_biases = first_input == 0 ? gradients + layer.biases : nullptr},
        stream);
  }
  // Those by n_in inputs of a layer, from input first_input on.
  void Back(const MlpLayer& layer, const kernels::DeviceRange& range, int first_input, int n_in,
            const T* grad_outputs, const T* more, const T* gate, T* grad_inputs) const {
    cuda::WideBackward(
        cuda::WideBackwardParams<T>{
            .range = range,
            .n_in = n_in,
            .n_out = layer.n_out,
            .grad_outputs = grad_outputs,
            .weights = weights + layer.weights + static_cast<size_t>(first_input) * layer.n_out,
            .more = more,
            .gate = gate,
            .grad_inputs = grad_inputs},
        stream);
  }
};

template <typename T>
void MlpCudaNetwork<T>::Backward(const Samples& samples, const float* sigmas, const float* grads,
                                 float scale, const T* weights, float* gradients,
                                 size_t part_stride, kernels::Stream stream) {
  const kernels::DeviceRange& range = samples.range;
  const int width = layout_.width;
  const Gradients to{weights, gradients, part_stride, stream};
  MlpCudaArrays<T>& a = arrays_;
  cuda::OutputGradient(cuda::OutputGradientParams<T>{.range = range,
                                                     .rows = samples.rows,
                                                     .grads = grads,
                                                     .sigmas = sigmas,
                                                     .scale = scale,
                                                     .grad_densities = a.grad_densities.data(),
                                                     .grad_colors = a.grad_colors.data()},
                       stream);
  const T* const trunk = a.hidden[HiddenOf(layout_.depth - 1)].data();
  const MlpLayer &color = layout_.color(), &color_hidden = layout_.color_hidden();
  to.Add(color, range, {a.color_hidden.data(), width / 2}, 0, a.grad_colors.data());
  to.Back(color, range, 0, width / 2, a.grad_colors.data(), nullptr, a.color_hidden.data(),
          a.grad_b.data());
  to.Add(color_hidden, range, {a.features.data(), width}, 0, a.grad_b.data());
  to.Add(color_hidden, range,
         {a.directions.data(), kMlpDirectionWidth, samples.rows, samples.ray_of}, width,
         a.grad_b.data());
  to.Back(color_hidden, range, 0, width, a.grad_b.data(), nullptr,
          layout_.feature_relu ? a.features.data() : nullptr, a.grad_a.data());
  to.Add(layout_.feature(), range, {trunk, width}, 0, a.grad_a.data());
  to.Back(layout_.feature(), range, 0, width, a.grad_a.data(), nullptr, nullptr, a.grad_b.data());
  to.Add(layout_.output(), range, {trunk, width}, 0, a.grad_densities.data());
  to.Back(layout_.output(), range, 0, width, a.grad_densities.data(), a.grad_b.data(), trunk,
          a.grad_a.data());
  BackwardTrunk(range, to);
}

// From the gradients by the sums of the last layer, in grad_a.
template <typename T>
void MlpCudaNetwork<T>::BackwardTrunk(const kernels::DeviceRange& range, const Gradients& to) {
  const Input encodings{arrays_.encodings.data(), kMlpPositionWidth};
  T *grad = arrays_.grad_a.data(), *next = arrays_.grad_b.data();
  for (int l = layout_.depth - 1; l >= 0; --l) {
    const MlpLayer& layer = layout_.trunk(l);
    const bool skips = l > 0 && l == layout_.skip;
    if (l == 0 || skips) to.Add(layer, range, encodings, 0, grad);
    if (l == 0) break;
    const int first_input = skips ? kMlpPositionWidth : 0;
    const T* const before = arrays_.hidden[HiddenOf(l - 1)].data();
    to.Add(layer, range, {before, layout_.width}, first_input, grad);
    to.Back(layer, range, first_input, layout_.width, grad, nullptr, before, next);
    std::swap(grad, next);
  }
}

template <typename T>
Buffer<T> ParametersOnDevice(std::span<const float> parameters, kernels::Stream stream) {
  std::vector<T> values(parameters.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if constexpr (std::is_same_v<T, Half>)
      values[i] = HalfFromFloat(parameters[i]);
    else
      values[i] = parameters[i];
  }
  Buffer<T> buffer(values.size(), cuda::DeviceAllocator());
  cuda::CopyToDevice(buffer.data(), values.data(), buffer.byte_size(), stream);
  cuda::Synchronize(stream);
  return buffer;
}

template Buffer<float> ParametersOnDevice(std::span<const float>, kernels::Stream);
template Buffer<Half> ParametersOnDevice(std::span<const float>, kernels::Stream);
template struct MlpCudaArrays<float>;
template struct MlpCudaArrays<Half>;
template class MlpCudaNetwork<float>;
template class MlpCudaNetwork<Half>;

}  // namespace nerf
