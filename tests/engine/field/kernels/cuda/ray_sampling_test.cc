#include "engine/field/kernels/ray_sampling.h"

#include "tests/testing/cuda_test.h"

namespace nerf::kernels {
namespace {

class CudaRaySamplingTest : public CudaTest {};
NERF_INSTANTIATE_CUDA_PLACES(CudaRaySamplingTest);

// Two pictures of noise, one with lens distortion.
struct Pictures {
  Pictures() : pixels(10 * 10 * 3 + 6 * 5 * 4), first_pixels{0, 100, 130} {
    for (size_t i = 0; i < pixels.size(); ++i) {
      const auto words = RandomWords(1, RandomUse::kTest, 3, static_cast<uint32_t>(i));
      pixels[i] = static_cast<uint8_t>(words[0] >> 24);
    }
  }
  // With the pixels at `from`.
  std::vector<Picture> At(const uint8_t* from) const {
    const LensCamera plain{8, 9, 5, 5, LensModel::kPinhole, {}, {}};
    LensCamera bent{7, 7, 3, 2, LensModel::kOpenCv, {.k1 = 0.2f, .p1 = 0.01f}, {}};
    bent.camera_to_world.m[0][3] = 2;
    return {{plain, 10, 3, from}, {bent, 6, 4, from + 300}};
  }
  std::vector<uint8_t> pixels;
  std::vector<uint64_t> first_pixels;
};

TEST_P(CudaRaySamplingTest, RaysAreThoseOfTheHostForAllSizes) {
  const Pictures host;
  const DeviceArray<uint8_t> pixels(host.pixels);
  const DeviceArray<Picture> pictures(host.At(pixels.data()));
  const DeviceArray<uint64_t> first_pixels(host.first_pixels);
  const DeviceArray<uint32_t> step({77u}), four({4u});
  const std::vector<uint32_t> host_runs = {1, 2, 6, 8};  // the last of them has 2 pixels
  const DeviceArray<uint32_t> runs(host_runs);
  const std::vector<Picture> host_pictures = host.At(host.pixels.data());
  for (BackgroundKind background :
       {BackgroundKind::kBlack, BackgroundKind::kWhite, BackgroundKind::kRandom}) {
    PictureSet set{.n_pictures = 2,
                   .pictures = pictures.data(),
                   .first_pixels = first_pixels.data(),
                   .background = background,
                   .near = 0.25f,
                   .far = 7,
                   .seed = 9,
                   .alpha_is_mask = background == BackgroundKind::kWhite};
    PictureSet host_set = set;
    if (background == BackgroundKind::kRandom) {
      set.runs = runs.data();
      host_set.runs = host_runs.data();
      set.n_drawn = host_set.n_drawn = 50;
    }
    host_set.pictures = host_pictures.data();
    host_set.first_pixels = host.first_pixels.data();
    int n_of_second = 0;
    for (uint32_t n : {0u, 1u, 255u, 256u, 257u, 1000u}) {
      DeviceArray<Ray> rays(n);
      DeviceArray<float> jitters(n);
      DeviceArray<Vec3> targets(n), backgrounds(n);
      DeviceArray<float> weights(n);
      DeviceArray<int32_t> views(n);
      // Both, one of them, none.
      const bool has_views = background != BackgroundKind::kBlack;
      const bool in_fours = background == BackgroundKind::kRandom;
      cuda::SampleRays({.range = {n},
                        .set = set,
                        .step = step.data(),
                        .rays_per_pixel = in_fours ? four.data() : nullptr,
                        .rays = rays.data(),
                        .jitters = jitters.data(),
                        .targets = targets.data(),
                        .backgrounds = backgrounds.data(),
                        .weights = set.alpha_is_mask ? weights.data() : nullptr,
                        .views = has_views ? views.data() : nullptr},
                       stream_);
      const auto found_rays = rays.Download(stream_);
      const auto found_jitters = jitters.Download(stream_);
      const auto found_targets = targets.Download(stream_);
      const auto found_backgrounds = backgrounds.Download(stream_);
      const auto found_weights = weights.Download(stream_);
      const auto found_views = views.Download(stream_);
      for (uint32_t i = 0; i < n; ++i) {
        const SampledRay expected = SampleRay(host_set, 77, i, in_fours ? 4 : 1);
        EXPECT_EQ(found_jitters[i], expected.jitter);
        EXPECT_EQ(found_backgrounds[i], expected.background);
        EXPECT_EQ(found_rays[i].t_near, 0.25f);
        EXPECT_EQ(found_rays[i].t_far, 7);
        EXPECT_EQ(found_weights[i], set.alpha_is_mask ? expected.weight : 0);
        EXPECT_EQ(found_views[i], has_views ? expected.picture : 0);
        n_of_second += expected.picture;
        EXPECT_EQ(found_rays[i].origin, expected.ray.origin);
        for (int axis = 0; axis < 3; ++axis) {
          // A device contracts multiplies and adds that the host does not.
          ASSERT_NEAR(found_rays[i].direction[axis], expected.ray.direction[axis], 1e-6) << i;
          ASSERT_NEAR(found_targets[i][axis], expected.target[axis], 1e-6) << i;
        }
      }
    }
    EXPECT_GT(n_of_second, 0);
  }
}

}  // namespace
}  // namespace nerf::kernels
