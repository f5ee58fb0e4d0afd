#include "engine/methods/autograd/hash_encoding_op.h"

#include <vector>

#include "engine/methods/autograd/cuda_layer.h"
#include "engine/methods/autograd/hash_encoding_kernels_op.h"

namespace nerf::autograd {
namespace {

constexpr int64_t kPrimeY = 2654435761, kPrimeZ = 805459861;  // Mueller et al. 2022, eq. 4

// A constant tensor, made on the host and copied to the device at once.
torch::Tensor Constants(const std::vector<int64_t>& values, torch::IntArrayRef shape,
                        const torch::Device& device) {
  return torch::tensor(values, torch::kInt64).view(shape).to(device);
}

// Whether the kernels can compute this. They sum gradients in an arbitrary order.
bool KernelsSupport(const kernels::HashGridShape& shape, const torch::Tensor& table,
                    const torch::Tensor& positions) {
  const bool needs_position_gradient = at::GradMode::is_enabled() && positions.requires_grad();
  return HasCudaLayer() && table.is_cuda() && table.scalar_type() == torch::kFloat32 &&
         positions.scalar_type() == torch::kFloat32 && !needs_position_gradient &&
         (shape.n_features == 2 || shape.n_features == 4) &&
         !at::globalContext().deterministicAlgorithms();
}

}  // namespace

torch::Tensor HashEncode(const kernels::HashGridShape& shape, const torch::Tensor& table,
                         const torch::Tensor& positions) {
  const int64_t n_levels = shape.n_levels, n_entries = shape.entries();
  const int64_t n_features = shape.n_features;
  TORCH_CHECK(table.sizes() == torch::IntArrayRef({n_levels, n_entries, n_features}),
              "HashEncode: table is ", table.sizes(), ", expected [", n_levels, ", ", n_entries,
              ", ", n_features, "]");
  TORCH_CHECK(positions.dim() == 2 && positions.size(1) == 3, "HashEncode: positions are ",
              positions.sizes(), ", expected [n, 3]");
  TORCH_CHECK(table.device() == positions.device(), "HashEncode: table is on ", table.device(),
              ", positions on ", positions.device());
  const torch::Device device = positions.device();
  if (KernelsSupport(shape, table, positions)) {
    return HashEncodeWithKernels(shape, table, positions, CurrentStream(device),
                                 CachingAllocator());
  }
  std::vector<int64_t> resolutions, is_dense, first_entries;
  for (int level = 0; level < shape.n_levels; ++level) {
    resolutions.push_back(shape.resolution[level]);
    is_dense.push_back(shape.IsDense(level));
    first_entries.push_back(n_entries * level);
  }
  const torch::Tensor resolution = Constants(resolutions, {1, n_levels, 1}, device);
  const torch::Tensor dense = Constants(is_dense, {1, n_levels, 1}, device).to(torch::kBool);
  const torch::Tensor first_entry = Constants(first_entries, {1, n_levels, 1}, device);
  // [n, levels, 3]: cells, and the point's position in its cell.
  const torch::Tensor scaled =
      positions.clamp(0, 1).unsqueeze(1) * resolution.to(positions.scalar_type());
  const torch::Tensor cell =
      torch::minimum(scaled.detach().floor().to(torch::kInt64), resolution - 1);
  const torch::Tensor fraction = scaled - cell;

  // [8, 3]: 1 if a corner is on the far side along the axis.
  std::vector<int64_t> far_corners;
  for (int corner = 0; corner < 8; ++corner) {
    for (int axis = 0; axis < 3; ++axis) far_corners.push_back((corner >> axis) & 1);
  }
  const torch::Tensor far = Constants(far_corners, {8, 3}, device);
  const torch::Tensor is_far = far.to(torch::kBool);
  const torch::Tensor along_axes =
      torch::where(is_far, fraction.unsqueeze(2), 1 - fraction.unsqueeze(2));  // [n, levels, 8, 3]
  const torch::Tensor weights =
      along_axes.select(3, 0) * along_axes.select(3, 1) * along_axes.select(3, 2);

  const torch::Tensor corners = cell.unsqueeze(2) + far;
  const torch::Tensor x = corners.select(3, 0), y = corners.select(3, 1), z = corners.select(3, 2);
  const torch::Tensor side = resolution + 1;
  const torch::Tensor row_major = x + side * (y + side * z);
  const torch::Tensor hashed =
      torch::bitwise_and(torch::bitwise_xor(torch::bitwise_xor(x, y * kPrimeY), z * kPrimeZ),
                         torch::Scalar(n_entries - 1));
  const torch::Tensor entry = torch::where(dense, row_major, hashed) + first_entry;
  const torch::Tensor values =
      table.reshape({-1, n_features}).index({entry});  // [n, levels, 8, n_features]
  return (values * weights.unsqueeze(3)).sum(2).reshape({-1, shape.width()});
}

}  // namespace nerf::autograd
