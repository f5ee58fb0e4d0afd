#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/base/check.h"
#include "engine/base/crop_box.h"
#include "engine/base/encoded_space.h"
#include "engine/base/half_float.h"
#include "engine/base/lens.h"
#include "engine/base/pixel_offset.h"
#include "engine/field/kernels/composite.h"
#include "engine/field/kernels/ray_marching.h"
#include "engine/field/kernels/stream.h"

namespace nerf::kernels {

// The rays of a view are ordered by tiles of pixels, row by row in each: the rays of a tile cross
// the same cells.
inline constexpr int kViewTileSide = 16;
inline constexpr int kViewTileRays = kViewTileSide * kViewTileSide;

inline constexpr float kViewJitter = 0.5f;  // the mean of training's jitters
// Rays of lower opacity get no depth: the mean distance of haze means nothing.
inline constexpr float kMinDepthOpacity = 0.1f;

// Color is not evaluated for a weight below one 8-bit step: it is added to the next sample's.
inline constexpr float kMinColorWeight = 1.0f / 256;

// The compositing state of a view's ray, front to back.
struct ViewAccumulator {
  Vec3 color;
  float transmittance = 1;
  float faded_transmittance = 1;  // what the picture shows of transmittance; see AddSample
  float depth = 0;
  float color_weight = 0;    // sum of the weights that `color` is made of
  float pending_weight = 0;  // of the thin samples since; added to the next sample's weight

  // Adds a sample's opacity and depth. Returns the weight of its color, including that of the thin
  // samples before it; 0 if the sample is itself too thin, and its color need not be evaluated.
  // Training stops rays at min_transmittance. Here the transmittance instead fades linearly to 0
  // between 2 * min_transmittance and min_transmittance: a picture then depends on no comparison
  // that rounding decides, and devices agree.
  NERF_HD float AddSample(float alpha, float t_middle, float min_transmittance) {
    transmittance *= 1 - alpha;
    const float faded =
        std::min(transmittance, std::max(2 * (transmittance - min_transmittance), 0.0f));
    const float weight = faded_transmittance - faded;
    faded_transmittance = faded;
    depth += weight * t_middle;
    pending_weight += weight;
    if (pending_weight < kMinColorWeight) return 0;
    const float sample_weight = pending_weight;
    pending_weight = 0;
    return sample_weight;
  }
  // True when no later sample is visible.
  NERF_HD bool Ended() const { return faded_transmittance <= 0; }
  NERF_HD void AddColor(Vec3 sample_color, float weight) {
    color = color + sample_color * weight;
    color_weight += weight;
  }

  // The color of a finished ray. Weight that is still pending gets the mean color.
  NERF_HD Vec3 ColorOn(Vec3 background) const {
    return color * (color_weight > 0 ? Opacity() / color_weight : 1) +
           background * faded_transmittance;
  }
  NERF_HD float Opacity() const { return 1 - faded_transmittance; }
  NERF_HD float ExpectedDepth() const {
    return Opacity() >= kMinDepthOpacity ? depth / Opacity() : 0;
  }
};

struct alignas(16) ViewRay : ViewAccumulator {
  MarchRay march;
};

// A value in [0, 1] in 8 bits, and four of them as the bytes R, G, B, A in memory.
NERF_HD inline uint32_t EightBits(float value) {
  return static_cast<uint32_t>(std::lround(std::min(std::max(value, 0.0f), 1.0f) * 255));
}
NERF_HD inline uint32_t PackRgba(Vec3 color, float opacity) {
  return EightBits(color.x) | EightBits(color.y) << 8 | EightBits(color.z) << 16 |
         EightBits(opacity) << 24;
}

// The same with straight alpha. premultiplied: the color composited on black. Where the opacity
// rounds to 0 there is no color.
NERF_HD inline uint32_t PackStraightRgba(Vec3 premultiplied, float opacity) {
  if (EightBits(opacity) == 0) return 0;
  return PackRgba(premultiplied * (1 / opacity), opacity);
}

// Rendering on a device, in waves: every ray that is alive takes a few samples, their densities and
// colors are evaluated, and finished rays are removed from the list of alive rays. The fewer rays
// are alive, the more samples each takes per wave. All pointers are to device memory.
namespace cuda {

// A wave has up to kViewSamplesPerRay samples per ray of the view. The alive rays share them, up to
// kMaxViewSamples each.
inline constexpr uint32_t kViewSamplesPerRay = 4;
inline constexpr int kMaxViewSamples = 64;

// The parameters of the current view. In device memory, so that recorded launches serve all views.
struct ViewControl {
  LensCamera camera;
  int width = 0, height = 0;  // of the picture
  uint32_t first_tile = 0;    // ray r is ray r % 256 of tile first_tile + r / 256
  uint32_t n_rays = 0;        // a multiple of 256
  PixelOffset offset;         // of each ray from the center of its pixel
  float near = 0;
  float far = Ray().t_far;
  float min_transmittance = 0;
  Vec3 background;
  bool own_background = true;  // with has_horizons: what the field has behind the boxes is shown
  bool straight_alpha = false;
  bool has_crop = false;
  CropBox crop;
};

// Rays alive before and after the current wave, and its samples. alive_even counts the rays before
// waves of even number and after those of odd number; alive_odd the other way round.
struct ViewCounts {
  uint32_t alive_even = 0, samples = 0, alive_odd = 0;
};

// Shapes: [ray_capacity] for rays and [sample_capacity] for samples; sample_capacity is at least
// ray_capacity.
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
  uint32_t* alive_even = nullptr;  // the alive rays before waves of even number
  uint32_t* alive_odd = nullptr;
  RaySegment* segments = nullptr;  // the wave's samples, by index in the list of alive rays
  // Samples of the wave.
  uint32_t sample_capacity = 0;
  float* t_middles = nullptr;
  float* deltas = nullptr;
  uint32_t* ray_of = nullptr;
  Vec3* positions = nullptr;  // unit cube
  const float* sigmas = nullptr;
  const Vec3* colors = nullptr;
  // Whether the field is also what lies behind the boxes. Finished rays then stay in `rays`, for
  // ListHorizons; else they are written below.
  bool has_horizons = false;
  EncodedSpace space;  // of the encoding, for horizons
  // Written when a ray is finished.
  uint32_t* rgba = nullptr;  // color on the background and opacity, or with straight alpha
  float* depths = nullptr;
};

// Initializes the rays [0, control->n_rays) where they enter the grid and lists them as alive; rays
// that miss it are finished. Nothing is written for a tile's pixels outside the picture.
// Traffic: 116 bytes per ray in half precision.
void StartView(const ViewParams<float>& params, Stream stream);
void StartView(const ViewParams<Half>& params, Stream stream);
// Marches the rays that are alive before wave number `wave`. The march runs twice, to count and to
// write. Traffic: 64 bytes per ray, 24 per sample.
void MarchView(const ViewParams<float>& params, int wave, Stream stream);
void MarchView(const ViewParams<Half>& params, int wave, Stream stream);
// Composites the wave's samples; writes the results of finished rays and lists the others as alive.
// Traffic: 130 bytes per ray, 24 per sample.
void CompositeView(const ViewParams<float>& params, int wave, Stream stream);
void CompositeView(const ViewParams<Half>& params, int wave, Stream stream);
// After the last wave of a view with horizons. The first writes the results of rays without light
// left and gives each other one a sample infinitely far away: *counts->samples of them, initially
// 0. The second writes the results of those, with their samples' colors as backgrounds.
// Traffic: 130 bytes per ray, 40 per sample; 130 per sample.
void ListHorizons(const ViewParams<float>& params, Stream stream);
void ListHorizons(const ViewParams<Half>& params, Stream stream);
void FinishHorizons(const ViewParams<float>& params, Stream stream);
void FinishHorizons(const ViewParams<Half>& params, Stream stream);

}  // namespace cuda

}  // namespace nerf::kernels
