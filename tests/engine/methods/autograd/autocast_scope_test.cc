#include "engine/methods/autograd/autocast_scope.h"

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <stdexcept>

#include "gtest/gtest.h"

namespace nerf::autograd {
namespace {

torch::Tensor Product(const torch::Tensor& leaf) {
  return torch::mm(torch::ones({2, 2}), leaf).to(torch::kFloat32);
}

TEST(AutocastScopeTest, MultipliesInBf16WhileItLives) {
  const torch::Tensor a = torch::ones({2, 2});
  {
    const AutocastScope scope(true);
    EXPECT_EQ(torch::mm(a, a).scalar_type(), torch::kBFloat16);
    const AutocastScope off(false);
    EXPECT_EQ(torch::mm(a, a).scalar_type(), torch::kBFloat16);
  }
  EXPECT_EQ(torch::mm(a, a).scalar_type(), torch::kFloat32);
  const AutocastScope off(false);
  EXPECT_EQ(torch::mm(a, a).scalar_type(), torch::kFloat32);
}

TEST(AutocastScopeTest, LeavesThatHaveChangedAreRoundedAnew) {
  const torch::Tensor leaf = torch::ones({2, 2}).requires_grad_(true);
  for (const float value : {1.0f, 3.0f}) {
    {
      const torch::NoGradGuard no_grad;
      leaf.fill_(value);
    }
    const AutocastScope scope(true);
    EXPECT_EQ(Product(leaf)[0][0].item<float>(), 2 * value);
  }
}

// Tensors of each kind of devices by its own switch: those of a scope of CUDA are not the CPU's.
TEST(AutocastScopeTest, OnCudaItMultipliesTensorsOfCudaDevicesAlone) {
  const torch::Tensor a = torch::ones({2, 2});
  const c10::ScalarType before = at::autocast::get_autocast_gpu_dtype();
  {
    const AutocastScope scope(true, torch::kCUDA);
    EXPECT_TRUE(at::autocast::is_enabled());
    EXPECT_EQ(at::autocast::get_autocast_gpu_dtype(), torch::kBFloat16);
    EXPECT_FALSE(at::autocast::is_cpu_enabled());
    EXPECT_EQ(torch::mm(a, a).scalar_type(), torch::kFloat32);
  }
  EXPECT_FALSE(at::autocast::is_enabled());
  EXPECT_EQ(at::autocast::get_autocast_gpu_dtype(), before);
}

// The cast of a scope without gradients, if it were kept, would have none in the next.
TEST(AutocastScopeTest, GradientsPassAfterAScopeWithoutThem) {
  const torch::Tensor leaf = torch::ones({2, 2}).requires_grad_(true);
  {
    const torch::NoGradGuard no_grad;
    const AutocastScope scope(true);
    Product(leaf);
  }
  torch::Tensor product;
  {
    const AutocastScope scope(true);
    product = Product(leaf);
  }
  product.sum().backward();
  ASSERT_TRUE(leaf.grad().defined());
  EXPECT_EQ(leaf.grad()[0][0].item<float>(), 2);
}

TEST(AutocastScopeTest, ExceptionsRestoreTheState) {
  at::autocast::set_autocast_cache_enabled(false);
  const auto fail = [] {
    const AutocastScope scope(true);
    EXPECT_TRUE(at::autocast::is_cpu_enabled());
    EXPECT_TRUE(at::autocast::is_autocast_cache_enabled());
    throw std::runtime_error("in a step");
  };
  EXPECT_THROW(fail(), std::runtime_error);
  EXPECT_FALSE(at::autocast::is_cpu_enabled());
  EXPECT_FALSE(at::autocast::is_autocast_cache_enabled());
  EXPECT_EQ(at::autocast::increment_nesting(), 1) << "the scope's own was not taken back";
  at::autocast::decrement_nesting();
  at::autocast::set_autocast_cache_enabled(true);
}

}  // namespace
}  // namespace nerf::autograd
