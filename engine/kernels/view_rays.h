#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/base/check.h"
#include "engine/base/half_float.h"
#include "engine/base/lens.h"
#include "engine/kernels/composite.h"
#include "engine/kernels/ray_marching.h"
#include "engine/kernels/stream.h"

namespace nerf::kernels {

// Rays of views go through tiles of pixels, row by row in each: those of a tile meet the same
// cells.
inline constexpr int kViewTileSide = 16;
inline constexpr int kViewTileRays = kViewTileSide * kViewTileSide;

inline constexpr float kViewJitter = 0.5f;  // the mean of the jitters that training drew
// What stops less light is haze, whose mean distance says nothing.
inline constexpr float kMinDepthOpacity = 0.1f;

// Samples that weigh less than an 8-bit step lend their weight to the next one of their ray.
inline constexpr float kMinColorWeight = 1.0f / 256;

// What a ray of a view has gathered so far, front to back.
struct ViewAccumulator {
  Vec3 color;
  float transmittance = 1;
  float left = 1;  // of the light, as the picture shows it; see AddSample
  float depth = 0;
  float seen = 0, unseen = 0;  // weight that color is made of, and that waits for the next sample

  // Takes the light that a sample stops. As in training no light is left below min_transmittance,
  // but here what is left falls to nothing on a line, from twice that on: a picture then hangs on
  // no rounding, and devices agree. Returns the weight that the sample's color has, those of the
  // thin samples before it included; 0 where it is itself one of those.
  NERF_HD float AddSample(float alpha, float t_middle, float min_transmittance) {
    transmittance *= 1 - alpha;
    const float still_left =
        std::min(transmittance, std::max(2 * (transmittance - min_transmittance), 0.0f));
    const float weight = left - still_left;
    left = still_left;
    depth += weight * t_middle;
    unseen += weight;
    if (unseen < kMinColorWeight) return 0;
    const float shown = unseen;
    unseen = 0;
    return shown;
  }
  // No light is left, so nothing more shows.
  NERF_HD bool Ended() const { return left <= 0; }
  NERF_HD void AddColor(Vec3 sample_color, float weight) {
    color = color + sample_color * weight;
    seen += weight;
  }

  // What a finished ray shows. What still waits has the color of what was seen.
  NERF_HD Vec3 ColorOn(Vec3 background) const {
    return color * (seen > 0 ? Opacity() / seen : 1) + background * left;
  }
  NERF_HD float Opacity() const { return 1 - left; }
  NERF_HD float ExpectedDepth() const {
    return Opacity() >= kMinDepthOpacity ? depth / Opacity() : 0;
  }
};

struct alignas(16) ViewRay : ViewAccumulator {
  MarchRay march;
};

// 8 bits of a value in [0, 1], and four of them as bytes in memory have them: red first.
NERF_HD inline uint32_t EightBits(float value) {
  return static_cast<uint32_t>(std::lround(std::min(std::max(value, 0.0f), 1.0f) * 255));
}
NERF_HD inline uint32_t PackRgba(Vec3 color, float opacity) {
  return EightBits(color.x) | EightBits(color.y) << 8 | EightBits(color.z) << 16 |
         EightBits(opacity) << 24;
}

// Rendering on a device, in waves: every ray with light left takes a few samples, their density and
// color are evaluated, and rays that are through drop out of the list of those alive. The fewer
// are alive, the more samples each takes at a time. All pointers are to device memory.
namespace cuda {

// A wave has up to this many samples for each ray of the view, and those alive share them, up to so
// many each.
inline constexpr uint32_t kViewSamplesPerRay = 4;
inline constexpr int kMaxViewSamples = 64;

// What a launch is told of the view at hand: on the device, so that recorded launches serve all
// views.
struct ViewControl {
  LensCamera camera;
  int width = 0, height = 0;  // of the picture
  uint32_t first_tile = 0;    // ray r is ray r % 256 of tile first_tile + r / 256
  uint32_t n_rays = 0;        // a multiple of 256
  float near = 0;
  float min_transmittance = 0;
  Vec3 background;
};

// How many rays are alive before and after the wave at hand, and its samples. The roles of the
// first and the last change from wave to wave.
struct ViewCounts {
  uint32_t alive_even = 0, samples = 0, alive_odd = 0;
};

// Shapes: [ray_capacity] for rays and [sample_capacity] for samples, the latter at least as many.
// T is Half or float.
template <typename T>
struct ViewParams {
  MarchGrid grid;
  MarchSteps steps;
  Vec3 box_min, inverse_box_size;  // what the unit cube covers
  const ViewControl* control = nullptr;
  ViewCounts* counts = nullptr;
  // Rays.
  uint32_t ray_capacity = 0;
  ViewRay* rays = nullptr;
  T* harmonics = nullptr;          // [ray_capacity][16]
  uint32_t* alive_even = nullptr;  // which rays are alive, before waves of even number
  uint32_t* alive_odd = nullptr;
  RaySegment* segments = nullptr;  // of the wave, by place in the list
  // Samples of the wave.
  uint32_t sample_capacity = 0;
  float* t_middles = nullptr;
  float* deltas = nullptr;
  uint32_t* ray_of = nullptr;
  Vec3* positions = nullptr;  // unit cube
  const float* sigmas = nullptr;
  const Vec3* colors = nullptr;
  // Of finished rays.
  uint32_t* rgba = nullptr;  // color on the background and opacity, PackRgba
  float* depths = nullptr;
};

// Puts the rays of control->n_rays where they enter the grid and lists them as alive; those that
// miss it are finished. Pixels beyond the picture have no ray, and nothing is written for them.
// Traffic: 116 bytes a ray in half precision.
void StartView(const ViewParams<float>& params, Stream stream);
void StartView(const ViewParams<Half>& params, Stream stream);
// Marches the rays that are alive before wave number `wave`.
// Traffic: 64 bytes a ray, 24 a sample. The march itself runs twice, to count and to write.
void MarchView(const ViewParams<float>& params, int wave, Stream stream);
void MarchView(const ViewParams<Half>& params, int wave, Stream stream);
// Adds the wave's samples to their rays; finishes those that are through and lists the others.
// Traffic: 130 bytes a ray, 24 a sample.
void CompositeView(const ViewParams<float>& params, int wave, Stream stream);
void CompositeView(const ViewParams<Half>& params, int wave, Stream stream);

}  // namespace cuda

}  // namespace nerf::kernels
