#include "engine/methods/autograd/hash_encoding_kernels_op.h"

#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>
#include <limits>

#include "engine/base/vec3.h"
#include "engine/methods/autograd/cuda_layer.h"

namespace nerf::autograd {
namespace {

// What the forward and backward pass of a call share besides tensors.
struct Call : torch::CustomClassHolder {
  Call(const kernels::HashGridShape& shape, kernels::Stream stream, BufferAllocator* allocator)
      : shape(shape), stream(stream), allocator(allocator) {}
  const kernels::HashGridShape shape;
  const kernels::Stream stream;
  BufferAllocator* const allocator;
};

const Vec3* PointsOf(const torch::Tensor& positions) {
  static_assert(sizeof(Vec3) == 3 * sizeof(float));
  return reinterpret_cast<const Vec3*>(positions.data_ptr<float>());
}

// A contiguous table whose entries are aligned to their size, as the kernels' loads require.
torch::Tensor Aligned(const torch::Tensor& table) {
  const torch::Tensor packed = table.contiguous();
  const size_t entry_bytes = table.size(2) * sizeof(float);
  const bool is_aligned = reinterpret_cast<uintptr_t>(packed.data_ptr()) % entry_bytes == 0;
  return is_aligned ? packed : packed.clone();
}

// Features in the kernels' layout, planes of two. In LibTorch tensors they are sample by sample.
class Planes {
 public:
  Planes(const Call& call, int64_t n, const torch::Device& device)
      : n_(n),
        n_planes_(call.shape.width() / 2),
        values_(2 * n_planes_ * n, call.allocator),
        view_(ViewOf(&values_, {n_planes_, n, 2}, device)) {}
  float* data() { return values_.data(); }
  uint32_t stride() const { return static_cast<uint32_t>(n_); }
  void Set(const torch::Tensor& features) {
    view_.copy_(features.reshape({n_, n_planes_, 2}).permute({1, 0, 2}));
  }
  torch::Tensor Get() const {
    torch::Tensor features = torch::empty({n_, n_planes_, 2}, view_.options());
    return features.copy_(view_.permute({1, 0, 2})).view({n_, 2 * n_planes_});
  }

 private:
  const int64_t n_, n_planes_;
  Buffer<float> values_;
  torch::Tensor view_;
};

struct HashEncodeFunction : public torch::autograd::Function<HashEncodeFunction> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& any_table, const torch::Tensor& any_positions,
                               const c10::intrusive_ptr<Call>& call) {
    const torch::Tensor table = Aligned(any_table), positions = any_positions.contiguous();
    const c10::DeviceGuard guard(table.device());
    Planes features(*call, positions.size(0), table.device());
    kernels::cuda::HashEncodeForward(
        kernels::cuda::HashEncodeForwardParams<float>{.shape = call->shape,
                                                      .table = table.data_ptr<float>(),
                                                      .range = {features.stride()},
                                                      .positions = PointsOf(positions),
                                                      .features = features.data(),
                                                      .stride = features.stride()},
        call->stream);
    context->save_for_backward({positions});
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    return features.Get();
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    TORCH_CHECK(!gradients[0].requires_grad(),
                "HashEncodeWithKernels: second derivatives are not supported");
    const auto capsule = context->saved_data["call"].toCapsule();
    const Call& call = static_cast<const Call&>(*capsule);
    const torch::Tensor positions = context->get_saved_variables()[0];
    const c10::DeviceGuard guard(positions.device());
    // LibTorch runs this in the stream of the forward pass, on any thread.
    Planes grad_features(call, positions.size(0), positions.device());
    grad_features.Set(gradients[0]);
    const torch::Tensor grad_table = torch::zeros(
        {call.shape.n_levels, call.shape.entries(), call.shape.n_features}, positions.options());
    kernels::cuda::HashEncodeBackward({.shape = call.shape,
                                       .range = {grad_features.stride()},
                                       .positions = PointsOf(positions),
                                       .grad_features = grad_features.data(),
                                       .stride = grad_features.stride(),
                                       .grad_table = grad_table.data_ptr<float>()},
                                      call.stream);
    return {grad_table, torch::Tensor(), torch::Tensor()};
  }
};

}  // namespace

torch::Tensor HashEncodeWithKernels(const kernels::HashGridShape& shape, const torch::Tensor& table,
                                    const torch::Tensor& positions, kernels::Stream stream,
                                    BufferAllocator* allocator) {
  TORCH_CHECK(positions.size(0) <= std::numeric_limits<int32_t>::max(),
              "HashEncodeWithKernels: ", positions.size(0), " positions, more than 2^31 - 1");
  return HashEncodeFunction::apply(table, positions,
                                   c10::make_intrusive<Call>(shape, stream, allocator));
}

}  // namespace nerf::autograd
