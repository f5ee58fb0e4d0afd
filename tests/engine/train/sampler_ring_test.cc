#include "engine/train/batch/sampler_ring.h"

#include <gtest/gtest.h>

#include <thread>

#include "engine/program/bench/synthetic_scene.h"

namespace nerf {
namespace {

bool SamePixels(const PixelBatch& a, const PixelBatch& b) {
  return a.step == b.step && a.n_pixels == b.n_pixels && a.pixels == b.pixels &&
         a.targets == b.targets && a.backgrounds == b.backgrounds;
}

// A sampler on a small scene, and what it gives without a ring.
struct SamplerRingFixture {
  Scene scene = SyntheticBallScene(3, 0, 16);
  PixelSampler sampler{scene.train, Background::kRandom, 5};
  ThreadPool pool{2};

  PixelBatch Expected(uint32_t step, int n_pixels) {
    PixelBatch batch;
    sampler.Fill(step, n_pixels, &pool, &batch);
    return batch;
  }
};

// Waits until the drawing thread has n batches ready. False after ten seconds.
bool BecomesReady(const SamplerRing& ring, int n) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (ring.n_ready() != n) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(SamplerRingTest, GivesTheSamplersBatchesWhileThePixelCountGrowsAndShrinks) {
  for (const int n_ahead : {1, 2, 5}) {
    SamplerRingFixture f;
    SamplerRing ring(&f.sampler, n_ahead, 40, 256, {0, 256});
    PixelBatch batch;
    // Growth by half exceeds the pixels that the ring draws in reserve.
    const int counts[] = {256, 320, 640, 1280, 1216, 64, 64, 128, 2048, 1};
    for (int i = 0; i < 100; ++i) {
      const int n_pixels = counts[i % std::size(counts)];
      const uint32_t step = 40 + static_cast<uint32_t>(i);
      ring.Take(step, n_pixels, {0, n_pixels}, &f.pool, &batch);
      ASSERT_TRUE(SamePixels(batch, f.Expected(step, n_pixels)))
          << n_ahead << " ahead, step " << step;
    }
  }
}

TEST(SamplerRingTest, GivesTheRangesOfARank) {
  SamplerRingFixture f;
  SamplerRing ring(&f.sampler, 2, 0, 256, {128, 256});
  PixelBatch batch;
  const int counts[] = {256, 272, 300, 1280, 1216, 64, 130};
  for (int i = 0; i < 60; ++i) {
    const int n_pixels = counts[i % std::size(counts)];
    const IndexRange range =
        i % 3 == 2 ? IndexRange{0, n_pixels / 3} : IndexRange{n_pixels / 2, n_pixels};
    ring.Take(static_cast<uint32_t>(i), n_pixels, range, &f.pool, &batch);
    const PixelBatch expected = f.Expected(static_cast<uint32_t>(i), n_pixels);
    ASSERT_EQ(batch.n_pixels, n_pixels);
    for (int p = range.begin; p < range.end; ++p) {
      ASSERT_EQ(batch.pixels[p], expected.pixels[p]) << "step " << i << " pixel " << p;
      ASSERT_EQ(batch.targets[p], expected.targets[p]);
      ASSERT_EQ(batch.backgrounds[p], expected.backgrounds[p]);
    }
  }
}

TEST(SamplerRingTest, DrawsEachStrideThStep) {
  SamplerRingFixture f;
  SamplerRing ring(&f.sampler, 3, 1, 256, {0, 256}, 4);
  PixelBatch batch;
  for (uint32_t step = 1; step < 200; step += 4) {
    ring.Take(step, 256, {0, 256}, &f.pool, &batch);
    ASSERT_TRUE(SamePixels(batch, f.Expected(step, 256))) << step;
    if (step == 101) {
      ASSERT_TRUE(BecomesReady(ring, 3));
    }
  }
}

TEST(SamplerRingTest, BatchesAreDrawnWhileNobodyAsks) {
  SamplerRingFixture f;
  SamplerRing ring(&f.sampler, 3, 0, 256, {0, 256});
  EXPECT_TRUE(BecomesReady(ring, 3));
  PixelBatch batch;
  ring.Take(0, 256, {0, 256}, &f.pool, &batch);
  EXPECT_TRUE(BecomesReady(ring, 3));
}

TEST(SamplerRingTest, AnotherStepThanTheNextStartsAnew) {
  SamplerRingFixture f;
  SamplerRing ring(&f.sampler, 2, 0, 256, {0, 256});
  PixelBatch batch;
  for (const uint32_t step : {0u, 1u, 7u, 8u, 3u, 3u, 4u}) {
    ring.Take(step, 256, {0, 256}, &f.pool, &batch);
    ASSERT_TRUE(SamePixels(batch, f.Expected(step, 256))) << step;
  }
}

TEST(SamplerRingTest, EndsWhileItDraws) {
  SamplerRingFixture f;
  for (int i = 0; i < 50; ++i) {
    SamplerRing ring(&f.sampler, 4, 0, 4096, {0, 4096});
    PixelBatch batch;
    if (i % 2 == 1) ring.Take(0, 4096, {0, 4096}, &f.pool, &batch);
  }
}

}  // namespace
}  // namespace nerf
