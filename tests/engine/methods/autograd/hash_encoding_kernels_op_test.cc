// Under the host emulation, CPU tensors are used as device tensors, with the emulation's stream and
// allocator. On a device HashEncode itself selects the kernels. The expected values are those of
// its tensor operations on the CPU.
#include "engine/methods/autograd/hash_encoding_kernels_op.h"

#include <torch/torch.h>

#include <string>

#include "engine/methods/autograd/hash_encoding_op.h"
#include "tests/testing/cuda_test.h"
#include "tests/testing/gradcheck.h"

namespace nerf::autograd {
namespace {

#ifdef NERF_CUDA_EMULATION
constexpr torch::DeviceType kDevice = torch::kCPU;
#else
constexpr torch::DeviceType kDevice = torch::kCUDA;
#endif

// A coordinate times the finest resolution has a relative error of 2^-24, which changes a feature
// by that times the difference between corners, on three axes, in both results.
constexpr int kFinest = 20;
constexpr double kTolerance = 2 * 3 * 2 * kFinest * 0x1p-24 + 1e-6;

// The first level dense, the last one hashed.
kernels::HashGridShape Shape(int n_levels, int n_features) {
  return kernels::MakeHashGridShape(n_levels, n_features, 6, 2, kFinest);
}

torch::Tensor RandomTable(const kernels::HashGridShape& shape) {
  return RandomTensor({shape.n_levels, shape.entries(), shape.n_features}, -1, 1, 2)
      .to(torch::kFloat32);
}

// In the unit cube and around it.
torch::Tensor RandomPositions(int64_t n) {
  return RandomTensor({n, 3}, -0.2, 1.2, 3).to(torch::kFloat32);
}

struct Result {
  torch::Tensor features, grad_table;
};

class HashEncodingKernelsOpTest : public CudaTest {
 protected:
  torch::Tensor Encode(const kernels::HashGridShape& shape, const torch::Tensor& table,
                       const torch::Tensor& positions) {
#ifdef NERF_CUDA_EMULATION
    return HashEncodeWithKernels(shape, table, positions, stream_,
                                 kernels::cuda::DeviceAllocator());
#else
    return HashEncode(shape, table, positions);
#endif
  }

  // Features, and the gradient by the table of a weighted sum of them.
  Result Encoded(const kernels::HashGridShape& shape, const torch::Tensor& table,
                 const torch::Tensor& positions) {
    const torch::Tensor leaf = table.detach().to(kDevice).requires_grad_(true);
    const torch::Tensor features = Encode(shape, leaf, positions.to(kDevice));
    (features * Projection(features.sizes()).to(kDevice)).sum().backward();
    return {features.detach().cpu(), leaf.grad().cpu()};
  }
  static Result Expected(const kernels::HashGridShape& shape, const torch::Tensor& table,
                         const torch::Tensor& positions) {
    const torch::Tensor leaf = table.detach().clone().requires_grad_(true);
    const torch::Tensor features = HashEncode(shape, leaf, positions);
    (features * Projection(features.sizes())).sum().backward();
    return {features.detach(), leaf.grad()};
  }
  static torch::Tensor Projection(torch::IntArrayRef shape) {
    return RandomTensor(shape, -1, 1, 4).to(torch::kFloat32);
  }

  void ExpectAgrees(const kernels::HashGridShape& shape, int64_t n) {
    SCOPED_TRACE(testing::Message() << shape.n_levels << " x " << shape.n_features << ", " << n);
    const torch::Tensor table = RandomTable(shape), positions = RandomPositions(n);
    const Result found = Encoded(shape, table, positions);
    const Result expected = Expected(shape, table, positions);
    ASSERT_EQ(found.features.sizes(), torch::IntArrayRef({n, shape.width()}));
    ASSERT_EQ(found.grad_table.sizes(), table.sizes());
    EXPECT_TRUE(torch::allclose(found.features, expected.features, 0, kTolerance));
    // Up to n samples add to an entry.
    EXPECT_TRUE(torch::allclose(found.grad_table, expected.grad_table, 0, (n + 1) * kTolerance));
    EXPECT_EQ(found.grad_table.abs().max().item<float>() > 0.1f, n > 0);
  }
};
NERF_INSTANTIATE_CUDA_PLACES(HashEncodingKernelsOpTest);

TEST_P(HashEncodingKernelsOpTest, FeaturesAndGradientsAgreeWithTheTensorOperations) {
  ASSERT_TRUE(Shape(3, 2).IsDense(0));
  ASSERT_FALSE(Shape(3, 2).IsDense(2));
  for (int64_t n : {0, 1, 257}) {
    ExpectAgrees(Shape(3, 2), n);
    ExpectAgrees(Shape(8, 4), n);
    ExpectAgrees(Shape(1, 2), n);  // one plane: both layouts are the same
  }
}

TEST_P(HashEncodingKernelsOpTest, StridedAndUnalignedTensorsAgreeToo) {
  const kernels::HashGridShape shape = Shape(8, 4);
  const int64_t size = static_cast<int64_t>(shape.level_size()) * shape.n_levels;
  const torch::Tensor unaligned = RandomTensor({size + 1}, -1, 1, 2)
                                      .to(torch::kFloat32)
                                      .to(kDevice)
                                      .slice(0, 1)
                                      .view({shape.n_levels, shape.entries(), shape.n_features});
  const torch::Tensor strided = RandomPositions(40).t().contiguous().t();
  ASSERT_FALSE(strided.is_contiguous());
  // On the CPU only UBSan detects a misaligned entry.
  const torch::Tensor found = Encode(shape, unaligned, strided.to(kDevice)).cpu();
  EXPECT_TRUE(torch::allclose(found, HashEncode(shape, unaligned.cpu(), strided), 0, kTolerance));
}

TEST_P(HashEncodingKernelsOpTest, GradientsOfTwoCallsAddUp) {
  const kernels::HashGridShape shape = Shape(3, 2);
  const torch::Tensor table = RandomTable(shape), a = RandomPositions(20), b = a.flip(1);
  const torch::Tensor leaf = table.to(kDevice).detach().clone().requires_grad_(true);
  (Encode(shape, leaf, a.to(kDevice)).sum() + 2 * Encode(shape, leaf, b.to(kDevice)).sum())
      .backward();
  const torch::Tensor expected = table.clone().requires_grad_(true);
  (HashEncode(shape, expected, a).sum() + 2 * HashEncode(shape, expected, b).sum()).backward();
  EXPECT_TRUE(torch::allclose(leaf.grad().cpu(), expected.grad(), 0, 60 * kTolerance));
}

TEST_P(HashEncodingKernelsOpTest, SecondDerivativeIsRefused) {
  const kernels::HashGridShape shape = Shape(3, 2);
  const torch::Tensor table = RandomTable(shape).to(kDevice).requires_grad_(true);
  const torch::Tensor square = Encode(shape, table, RandomPositions(5).to(kDevice)).square().sum();
  try {
    torch::autograd::grad({square}, {table}, {}, /*retain_graph=*/true, /*create_graph=*/true);
    FAIL() << "no error";
  } catch (const c10::Error& e) {
    EXPECT_NE(std::string(e.what()).find("second derivatives are not supported"), std::string::npos)
        << e.what();
  }
}

#ifndef NERF_CUDA_EMULATION
// Cases that the kernels do not support use tensor operations, which have second derivatives.
TEST_P(HashEncodingKernelsOpTest, DoublesAndGradientsByPositionsHaveSecondDerivatives) {
  const kernels::HashGridShape shape = Shape(3, 2);
  const auto expect_two = [&](const torch::Tensor& table, const torch::Tensor& positions) {
    const torch::Tensor square = HashEncode(shape, table, positions).square().sum();
    EXPECT_NO_THROW(torch::autograd::grad({square}, {table}, {}, /*retain_graph=*/true,
                                          /*create_graph=*/true));
  };
  const torch::Tensor table = RandomTable(shape).to(kDevice),
                      positions = RandomPositions(5).to(kDevice);
  expect_two(table.detach().clone().requires_grad_(true),
             positions.detach().clone().requires_grad_(true));
  expect_two(table.to(torch::kFloat64).requires_grad_(true), positions.to(torch::kFloat64));
}
#endif

}  // namespace
}  // namespace nerf::autograd
