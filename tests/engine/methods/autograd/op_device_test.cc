// Uses LibTorch's meta device as a stand-in: its tensors have a shape but no values, and an
// operation that mixes them with others throws. So an op that returns a meta tensor has created no
// tensor on the host.
#include <torch/library.h>
#include <torch/torch.h>

#include "engine/methods/autograd/composite_op.h"
#include "engine/methods/autograd/dense_layers_op.h"
#include "engine/methods/autograd/density_activation_op.h"
#include "engine/methods/autograd/hash_encoding_op.h"
#include "engine/methods/autograd/ngp_field_op.h"
#include "engine/methods/autograd/spherical_harmonics_op.h"
#include "gtest/gtest.h"

namespace nerf::autograd {
namespace {

constexpr int64_t kSamples = 5;

torch::Tensor Meta(torch::IntArrayRef shape, torch::ScalarType type = torch::kFloat32) {
  return torch::empty(shape, torch::TensorOptions(torch::kMeta).dtype(type));
}

#if TORCH_VERSION_MAJOR < 2
// Operations that LibTorch 1.13 has no meta version of.
torch::Tensor MetaRelu(const torch::Tensor& values) { return torch::empty_like(values); }
torch::Tensor MetaWhere(const torch::Tensor& condition, const torch::Tensor& a,
                        const torch::Tensor& b) {
  TORCH_CHECK(condition.is_meta() && a.is_meta() && b.is_meta(), "where: two devices");
  return torch::empty_like(a + b + condition);
}
torch::Tensor MetaIndexSelect(const torch::Tensor& values, int64_t axis,
                              const torch::Tensor& index) {
  TORCH_CHECK(values.is_meta() && index.is_meta(), "index_select: two devices");
  std::vector<int64_t> shape = values.sizes().vec();
  shape[axis] = index.numel();
  return torch::empty(shape, values.options());
}
#endif
// How many there are is a value, which meta tensors lack in every LibTorch.
torch::Tensor MetaRepeatInterleave(const torch::Tensor& repeats, c10::optional<int64_t>) {
  return torch::empty({kSamples}, repeats.options());
}
TORCH_LIBRARY_IMPL(aten, Meta, library) {
#if TORCH_VERSION_MAJOR < 2
  library.impl("relu", MetaRelu);
  library.impl("where.self", MetaWhere);
  library.impl("index_select", MetaIndexSelect);
#endif
  library.impl("repeat_interleave.Tensor", MetaRepeatInterleave);
}

void ExpectMeta(const torch::Tensor& tensor, torch::IntArrayRef shape) {
  EXPECT_TRUE(tensor.is_meta());
  EXPECT_EQ(tensor.sizes(), shape);
}

TEST(OpDeviceTest, MixedDevicesThrow) { EXPECT_THROW(Meta({2}) + torch::ones({2}), c10::Error); }

TEST(OpDeviceTest, HashEncodingStaysOnTheDeviceOfItsInputs) {
  const kernels::HashGridShape shape = kernels::MakeHashGridShape(3, 4, 6, 2, 20);
  ExpectMeta(HashEncode(shape, Meta({3, 64, 4}), Meta({kSamples, 3})), {kSamples, 12});
}

TEST(OpDeviceTest, HashEncodingNamesTwoDevices) {
  const kernels::HashGridShape shape = kernels::MakeHashGridShape(3, 2, 6, 2, 20);
  try {
    HashEncode(shape, Meta({3, 64, 2}), torch::zeros({kSamples, 3}));
    FAIL() << "no error";
  } catch (const c10::Error& e) {
    EXPECT_NE(std::string(e.what()).find("table is on meta, positions on cpu"), std::string::npos)
        << e.what();
  }
}

TEST(OpDeviceTest, CompositingStaysOnTheDeviceOfItsInputs) {
  const torch::Tensor ray_offsets = Meta({4}, torch::kInt64);
  const Composited composited = Composite(ray_offsets, Meta({kSamples}), Meta({kSamples}));
  ExpectMeta(composited.weights, {kSamples});
  ExpectMeta(composited.transmittance, {3});
  ExpectMeta(SumOverRays(ray_offsets, Meta({kSamples, 2})), {3, 2});
}

TEST(OpDeviceTest, DenseLayersStayOnTheDeviceOfTheirInputs) {
  ExpectMeta(DenseLayers(Meta({kSamples, 4}), {Meta({4, 6}), Meta({6, 3})}), {kSamples, 3});
}

TEST(OpDeviceTest, DensityActivationStaysOnTheDeviceOfItsInputs) {
  ExpectMeta(DensityActivation(Meta({kSamples}), 1), {kSamples});
}

TEST(OpDeviceTest, SphericalHarmonicsStayOnTheDeviceOfTheirInputs) {
  ExpectMeta(SphericalHarmonics4(Meta({kSamples, 3})), {kSamples, 16});
}

TEST(OpDeviceTest, TheFieldStaysOnTheDeviceOfItsParameters) {
  const kernels::HashGridShape shape = kernels::MakeHashGridShape(8, 4, 6, 2, 20);
  NgpTensors parameters{.table = Meta({8, 64, 4}), .layers = {}};
  for (const NgpLayer& layer : kNgpLayers)
    parameters.layers.push_back(Meta({layer.n_in, layer.n_out}));
  const torch::Tensor geometry = NgpGeometry(shape, parameters, Meta({kSamples, 3}));
  ExpectMeta(geometry, {kSamples, 16});
  ExpectMeta(NgpColor(parameters, geometry, Meta({kSamples, 3})), {kSamples, 3});
}

}  // namespace
}  // namespace nerf::autograd
