#include "engine/field/kernels/spherical_harmonics.h"

#include "tests/testing/cuda_test.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/reference/spherical_harmonics.h"

namespace nerf::kernels {
namespace {

class CudaSphericalHarmonicsTest : public CudaTest {
 protected:
  template <typename T>
  void ExpectAgrees(double tolerance) {
    for (uint32_t n : {0u, 1u, 255u, 256u, 257u, 1000u}) {
      const std::vector<Vec3> directions = RandomDirections(n);
      std::vector<Ray> rays(n);
      for (uint32_t i = 0; i < n; ++i) rays[i].direction = directions[i];
      const DeviceArray<Ray> device_rays(rays);
      DeviceArray<T> harmonics(size_t{16} * n);
      cuda::SphericalHarmonics(
          cuda::SphericalHarmonicsParams<T>{{n}, device_rays.data(), harmonics.data()}, stream_);
      const std::vector<double> found = Wide(harmonics.Download(stream_));
      for (uint32_t i = 0; i < n; ++i) {
        const Vec3 d = directions[i];
        const auto expected = reference::SphericalHarmonics4(d.x, d.y, d.z);
        for (int j = 0; j < 16; ++j) ASSERT_NEAR(found[16 * i + j], expected[j], tolerance) << i;
      }
    }
  }
};
NERF_INSTANTIATE_CUDA_PLACES(CudaSphericalHarmonicsTest);

// Terms of size up to 3, a handful of roundings.
TEST_P(CudaSphericalHarmonicsTest, AgreeWithLegendrePolynomials) { ExpectAgrees<float>(3e-6); }

TEST_P(CudaSphericalHarmonicsTest, AgreeInHalfPrecisionToItsRounding) {
  ExpectAgrees<Half>(2 * 0x1p-11);
}

}  // namespace
}  // namespace nerf::kernels
