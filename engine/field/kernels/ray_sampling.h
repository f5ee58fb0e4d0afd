#pragma once

#include <cstdint>

#include "engine/base/check.h"
#include "engine/base/lens.h"
#include "engine/base/philox.h"
#include "engine/base/pixel_offset.h"
#include "engine/base/ray.h"
#include "engine/field/kernels/stream.h"

namespace nerf::kernels {

// A posed photograph: 8-bit sRGB, rows top to bottom, channels interleaved (1 gray, 3 RGB, 4 RGB
// with straight alpha).
struct Picture {
  LensCamera camera;
  int width = 0;
  int n_channels = 3;
  const uint8_t* pixels = nullptr;
};

// Pixels of a run: neighbors in the order of all pixels of all pictures, whose rows follow one
// another. The last run of all may have fewer.
inline constexpr int kRunPixels = 16;

enum class BackgroundKind { kBlack, kWhite, kRandom };  // kRandom: per pixel, uniform in sRGB

// The pictures that rays are drawn from. first_pixels [n_pictures + 1]: the number of pixels in all
// pictures before this one; the last element is the total, which is positive.
struct PictureSet {
  int n_pictures = 0;
  const Picture* pictures = nullptr;
  const uint64_t* first_pixels = nullptr;
  uint64_t pixels_each = 0;  // of every picture; 0 where they differ or that is not known
  // The runs of kRunPixels that pixels are drawn from, by index, ascending; null: all. n_drawn: the
  // pixels in them.
  const uint32_t* runs = nullptr;
  uint64_t n_drawn = 0;  // unused without runs
  BackgroundKind background = BackgroundKind::kBlack;
  float near = 0;           // becomes t_near, where rays are made
  float far = Ray().t_far;  // likewise t_far
  uint64_t seed = 0;
  bool alpha_is_mask = false;  // of pictures: how much a pixel counts, not its opacity
};

// A ray of a training step with its target color.
struct SampledRay {
  Ray ray;
  float jitter = 0;  // [0, 1)
  Vec3 target, background;
  float weight = 1;  // in the loss
  int picture = 0;
};

// A pixel of a set: its picture and its index there, row-major.
struct SampledPixel {
  int picture = 0;
  uint64_t offset = 0;
};

// The pixel that two random words choose, uniform over all pixels that are drawn.
NERF_HD inline SampledPixel PixelAt(const PictureSet& set, uint32_t high_word, uint32_t low_word) {
  const uint64_t n = set.runs != nullptr ? set.n_drawn : set.first_pixels[set.n_pictures];
  uint64_t pixel = UniformIndex64(high_word, low_word, n);
  if (set.runs != nullptr)
    pixel = uint64_t{kRunPixels} * set.runs[pixel / kRunPixels] + pixel % kRunPixels;
  if (set.pixels_each != 0) {
    const uint64_t picture = pixel / set.pixels_each;
    return {static_cast<int>(picture), pixel - picture * set.pixels_each};
  }
  // The last picture that begins at or before the pixel.
  int low = 0, high = set.n_pictures;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (set.first_pixels[middle] <= pixel ? low : high) = middle;
  }
  return {low, pixel - set.first_pixels[low]};
}

// Pixel `index` of a step, a pure function of the arguments.
NERF_HD inline SampledPixel DrawPixel(const PictureSet& set, uint32_t step, uint32_t index) {
  const auto place = RandomWords(set.seed, RandomUse::kRayPixel, step, index);
  return PixelAt(set, place[0], place[1]);
}

// The pixel's bytes.
NERF_HD inline const uint8_t* BytesOf(const PictureSet& set, const SampledPixel& pixel) {
  const Picture& picture = set.pictures[pixel.picture];
  return picture.pixels + pixel.offset * picture.n_channels;
}

// A ray through the pixel in column x and row y, `offset` from its center.
NERF_HD inline Ray PixelRay(const LensCamera& camera, int x, int y, float near,
                            PixelOffset offset = {}) {
  Ray ray = LensRay(camera, static_cast<float>(x) + 0.5f + offset.x,
                    static_cast<float>(y) + 0.5f + offset.y);
  ray.t_near = near;
  return ray;
}

// Offset of the first sample of ray `index` of a step, in steps: [0, 1).
NERF_HD inline float RayJitter(uint64_t seed, uint32_t step, uint32_t index) {
  return UniformFloat(RandomWords(seed, RandomUse::kRayJitter, step, index)[0]);
}

// What a pixel should show.
struct PixelTarget {
  Vec3 target;       // sRGB, composited on the background
  Vec3 background;   // sRGB
  float weight = 1;  // of the pixel in the loss: its mask
};

// The target of a ray through `pixel` on a background.
NERF_HD inline PixelTarget TargetOn(const PictureSet& set, Vec3 background,
                                    const SampledPixel& pixel) {
  PixelTarget sampled;
  sampled.background = background;
  const Picture& picture = set.pictures[pixel.picture];
  const uint8_t* const bytes = BytesOf(set, pixel);
  const bool gray = picture.n_channels < 3;
  const Vec3 color = Vec3{static_cast<float>(bytes[0]), static_cast<float>(bytes[gray ? 0 : 1]),
                          static_cast<float>(bytes[gray ? 0 : 2])} *
                     (1 / 255.0f);
  const float alpha = picture.n_channels == 4 ? static_cast<float>(bytes[3]) / 255.0f : 1.0f;
  if (set.alpha_is_mask) {
    sampled.weight = alpha;
    sampled.target = color;
    return sampled;
  }
  sampled.target = color * alpha + sampled.background * (1 - alpha);
  return sampled;
}

// The target of `pixel`, drawn as number `index` of a step, which decides a random background.
NERF_HD inline PixelTarget TargetOfPixel(const PictureSet& set, uint32_t step, uint32_t index,
                                         const SampledPixel& pixel) {
  Vec3 background;
  if (set.background == BackgroundKind::kWhite) background = {1, 1, 1};
  if (set.background == BackgroundKind::kRandom) {
    const auto words = RandomWords(set.seed, RandomUse::kRayJitter, step, index);
    background = {UniformFloat(words[1]), UniformFloat(words[2]), UniformFloat(words[3])};
  }
  return TargetOn(set, background, pixel);
}

// Ray `index` of a step; it goes through pixel index / rays_per_pixel (OffsetInPixel).
NERF_HD inline SampledRay SampleRay(const PictureSet& set, uint32_t step, uint32_t index,
                                    uint32_t rays_per_pixel = 1) {
  const uint32_t of_pixel = index / rays_per_pixel;
  const SampledPixel pixel = DrawPixel(set, step, of_pixel);
  const Picture& picture = set.pictures[pixel.picture];
  const auto width = static_cast<uint64_t>(picture.width);
  const PixelTarget target = TargetOfPixel(set, step, of_pixel, pixel);
  const PixelOffset offset =
      OffsetInPixel(static_cast<int>(index % rays_per_pixel), static_cast<int>(rays_per_pixel));
  Ray ray = PixelRay(picture.camera, static_cast<int>(pixel.offset % width),
                     static_cast<int>(pixel.offset / width), set.near, offset);
  ray.t_far = set.far;
  return {.ray = ray,
          .jitter = RayJitter(set.seed, step, index),
          .target = target.target,
          .background = target.background,
          .weight = target.weight,
          .picture = pixel.picture};
}

namespace cuda {

// rays[i], jitters[i], targets[i], backgrounds[i] = SampleRay(set, *step, *first + i,
// *rays_per_pixel) for i in range; likewise weights and views (the pictures' numbers), unless both
// are null. All pointers are to device memory, including those in `set` and in its pictures. first:
// null means 0; rays_per_pixel: 1.
// Traffic per ray: about 150 bytes read, most of them its picture's camera, and 60 written.
struct SampleRaysParams {
  DeviceRange range;
  PictureSet set;
  const uint32_t* step = nullptr;
  const uint32_t* first = nullptr;
  const uint32_t* rays_per_pixel = nullptr;
  Ray* rays = nullptr;
  float* jitters = nullptr;
  Vec3* targets = nullptr;
  Vec3* backgrounds = nullptr;
  float* weights = nullptr;  // null: not wanted
  int32_t* views = nullptr;  // likewise
};
void SampleRays(const SampleRaysParams& params, Stream stream);

}  // namespace cuda

}  // namespace nerf::kernels
