#include "engine/methods/ngp/cuda/cuda_view_shape.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace nerf {
namespace {

TEST(CudaViewShapeTest, ViewsThatFitAreRenderedAtOnce) {
  for (uint32_t n_tiles : {1u, 2u, 5u, 2500u}) {
    const CudaViewShape shape = CudaViewShapeFor<Half>(n_tiles, SIZE_MAX);
    EXPECT_GE(shape.ray_capacity, n_tiles * 256);
    EXPECT_LT(shape.ray_capacity, 2 * n_tiles * 256);
    EXPECT_GE(shape.sample_capacity, 2 * shape.ray_capacity);
  }
  // 16384 x 16384 pixels are more than a device can use at once.
  EXPECT_EQ(CudaViewShapeFor<Half>(1u << 20, SIZE_MAX).ray_capacity, 1u << 20);
}

TEST(CudaViewShapeTest, ArraysTakeAtMostHalfOfTheFreeMemoryDownToOneTile) {
  const size_t whole = CudaViewBytes<float>(CudaViewShapeFor<float>(2500, SIZE_MAX));
  uint32_t rays = UINT32_MAX;
  for (size_t free = 2 * whole; free > whole / 5000; free /= 2) {
    const CudaViewShape shape = CudaViewShapeFor<float>(2500, free);
    EXPECT_TRUE(CudaViewBytes<float>(shape) <= free / 2 || shape.ray_capacity == 256) << free;
    EXPECT_LT(shape.ray_capacity, rays);
    EXPECT_EQ(shape.ray_capacity % 256, 0u);
    rays = shape.ray_capacity == 256 ? 257 : shape.ray_capacity;
  }
  EXPECT_EQ(CudaViewShapeFor<float>(2500, 0).ray_capacity, 256u);
}

}  // namespace
}  // namespace nerf
