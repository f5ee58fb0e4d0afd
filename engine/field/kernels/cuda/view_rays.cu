#include "engine/field/kernels/view_rays.h"

#include "engine/base/check.h"
#include "engine/field/kernels/activation.h"
#include "engine/field/kernels/cuda/block_reduce.cuh"
#include "engine/field/kernels/cuda/device_intrinsics.cuh"
#include "engine/field/kernels/cuda/launch.cuh"
#include "engine/field/kernels/spherical_harmonics.h"

// One thread per ray. The order of the list of alive rays depends on the order in which blocks run.
// Pixels do not, because each ray composites its own samples in their order.
namespace nerf::kernels::cuda {
namespace {

template <typename T>
struct WaveArguments {
  ViewParams<T> view;
  bool odd;  // whether the wave's number is odd
};

template <typename T>
__device__ void Write(const ViewParams<T>& p, uint32_t r, const ViewRay& ray, Vec3 background) {
  const Vec3 color = ray.ColorOn(background);
  p.rgba[r] = p.control->straight_alpha ? PackStraightRgba(color, ray.Opacity())
                                        : PackRgba(color, ray.Opacity());
  p.depths[r] = ray.ExpectedDepth();
}

// Writes a finished ray, or leaves it for ListHorizons.
template <bool kHorizons, typename T>
__device__ void Finish(const ViewParams<T>& p, uint32_t r, const ViewRay& ray) {
  if constexpr (kHorizons) {
    p.rays[r] = ray;
  } else {
    Write(p, r, ray, p.control->background);
  }
}

// The pixel of ray r, of which `thread` is the last eight bits.
struct PixelPlace {
  int x, y;
};
__device__ inline PixelPlace PlaceOf(const ViewControl& control, uint32_t tile, uint32_t thread) {
  const uint32_t tiles_x = (control.width + kViewTileSide - 1) / kViewTileSide;
  return {static_cast<int>(tile % tiles_x * kViewTileSide + thread % kViewTileSide),
          static_cast<int>(tile / tiles_x * kViewTileSide + thread / kViewTileSide)};
}

// Appends r to the list where `is_alive`. Called by every thread of a block.
__device__ void Append(bool is_alive, uint32_t r, uint32_t* count, uint32_t* list) {
  __shared__ uint32_t block_first;
  uint32_t total;
  const uint32_t before = BlockExclusiveSum(is_alive ? 1 : 0, &total);
  if (threadIdx.x == 0) block_first = atomicAdd(count, total);
  __syncthreads();
  if (is_alive) list[block_first + before] = r;
  __syncthreads();  // before block_first is overwritten
}

template <typename T, bool kHorizons>
__global__ void __launch_bounds__(kBlock) StartViewKernel(const __grid_constant__ ViewParams<T> p) {
  static_assert(kViewTileRays == kBlock);
  const ViewControl& control = *p.control;
  for (uint32_t base = blockIdx.x * kBlock; base < control.n_rays; base += gridDim.x * kBlock) {
    const uint32_t r = base + threadIdx.x;
    const auto [x, y] = PlaceOf(control, control.first_tile + base / kBlock, threadIdx.x);
    bool is_alive = false;
    if (x < control.width && y < control.height) {
      Ray ray = LensRay(control.camera, static_cast<float>(x) + 0.5f + control.offset.x,
                        static_cast<float>(y) + 0.5f + control.offset.y);
      ray.t_near = control.near;
      ray.t_far = control.far;
      if (control.has_crop) control.crop.Cut(&ray);
      ViewRay state;
      state.march = StartMarch(p.grid, p.steps, ray, kViewJitter);
      is_alive = state.march.t_exit >= 0;
      if (is_alive || kHorizons) {
        p.rays[r] = state;
        float harmonics[16];
        SphericalHarmonics4(ray.direction, harmonics);
#pragma unroll
        for (int i = 0; i < 16; ++i) p.harmonics[16 * size_t{r} + i] = FromFloat<T>(harmonics[i]);
      } else {
        Finish<kHorizons>(p, r, state);
      }
    }
    Append(is_alive, r, &p.counts->alive_even, p.alive_even);
  }
}

template <typename T>
__global__ void __launch_bounds__(kBlock)
    MarchViewKernel(const __grid_constant__ WaveArguments<T> arguments) {
  const ViewParams<T>& p = arguments.view;
  __shared__ uint32_t block_first;
  const uint32_t n_alive = arguments.odd ? p.counts->alive_odd : p.counts->alive_even;
  const uint32_t* const alive = arguments.odd ? p.alive_odd : p.alive_even;
  if (n_alive == 0) return;
  const uint32_t samples = min(p.sample_capacity, kViewSamplesPerRay * p.control->n_rays);
  const int max_samples = min(kMaxViewSamples, static_cast<int>(samples / n_alive));
  for (uint32_t base = blockIdx.x * kBlock; base < n_alive; base += gridDim.x * kBlock) {
    const uint32_t index = base + threadIdx.x;
    uint32_t r = 0;
    MarchRay march;
    int n = 0;
    if (index < n_alive) {
      r = alive[index];
      march = p.rays[r].march;
      MarchRay counted = march;
      n = MarchSamples(p.grid, p.steps, max_samples, &counted, nullptr, nullptr);
    }
    uint32_t total;
    const uint32_t before = BlockExclusiveSum(n, &total);
    if (threadIdx.x == 0) block_first = atomicAdd(&p.counts->samples, total);
    __syncthreads();
    if (index < n_alive) {
      const uint32_t first = block_first + before;
      // At most the counted number, even if the two passes round differently. If the count found
      // the ray's end, this pass need not march there again.
      const float t_before = march.t;
      const int found =
          MarchSamples(p.grid, p.steps, n, &march, p.t_middles + first, p.deltas + first);
      for (uint32_t i = first; i < first + found; ++i) {
        const Vec3 position = march.origin + march.direction * p.t_middles[i];
        p.positions[i] = (position - p.box_min) * p.inverse_box_size;
        p.ray_of[i] = r;
      }
      p.segments[index] = {first, static_cast<uint32_t>(found)};
      p.rays[r].march.t = march.t;
      const bool ends = n < max_samples || !(march.t > t_before);
      p.rays[r].march.t_exit = ends ? -1 : march.t_exit;
    }
    __syncthreads();  // before block_first is overwritten
  }
}

template <typename T, bool kHorizons>
__global__ void __launch_bounds__(kBlock)
    CompositeViewKernel(const __grid_constant__ WaveArguments<T> arguments) {
  const ViewParams<T>& p = arguments.view;
  const uint32_t n_alive = arguments.odd ? p.counts->alive_odd : p.counts->alive_even;
  const uint32_t* const alive = arguments.odd ? p.alive_odd : p.alive_even;
  const float min_transmittance = p.control->min_transmittance;
  for (uint32_t base = blockIdx.x * kBlock; base < n_alive; base += gridDim.x * kBlock) {
    const uint32_t index = base + threadIdx.x;
    uint32_t r = 0;
    bool goes_on = false;
    if (index < n_alive) {
      r = alive[index];
      ViewRay ray = p.rays[r];
      const RaySegment segment = p.segments[index];
      for (uint32_t i = segment.first; i < segment.first + segment.n; ++i) {
        if (ray.Ended()) break;
        const float weight = ray.AddSample(AlphaFromDensity(p.sigmas[i], p.deltas[i]),
                                           p.t_middles[i], min_transmittance);
        if (weight > 0) ray.AddColor(p.colors[i], weight);
      }
      goes_on = !ray.Ended() && ray.march.t_exit >= 0;
      if (goes_on) {
        p.rays[r] = ray;
      } else {
        Finish<kHorizons>(p, r, ray);
      }
    }
    Append(goes_on, r, arguments.odd ? &p.counts->alive_even : &p.counts->alive_odd,
           arguments.odd ? p.alive_even : p.alive_odd);
  }
}

template <typename T>
__global__ void __launch_bounds__(kBlock)
    ListHorizonsKernel(const __grid_constant__ ViewParams<T> p) {
  __shared__ uint32_t block_first;
  const ViewControl& control = *p.control;
  for (uint32_t base = blockIdx.x * kBlock; base < control.n_rays; base += gridDim.x * kBlock) {
    const uint32_t r = base + threadIdx.x;
    const auto [x, y] = PlaceOf(control, control.first_tile + base / kBlock, threadIdx.x);
    bool has_light = false;
    if (x < control.width && y < control.height) {
      has_light = control.own_background && !p.rays[r].Ended();
      if (!has_light) Write(p, r, p.rays[r], control.background);
    }
    uint32_t total;
    const uint32_t before = BlockExclusiveSum(has_light ? 1 : 0, &total);
    if (threadIdx.x == 0) block_first = atomicAdd(&p.counts->samples, total);
    __syncthreads();
    if (has_light) {
      const uint32_t i = block_first + before;
      p.positions[i] = p.space.HorizonUnit(p.rays[r].march.direction);
      p.ray_of[i] = r;
    }
    __syncthreads();  // before block_first is overwritten
  }
}

template <typename T>
__global__ void __launch_bounds__(kBlock)
    FinishHorizonsKernel(const __grid_constant__ ViewParams<T> p) {
  const uint32_t n = p.counts->samples;
  for (uint32_t i = blockIdx.x * kBlock + threadIdx.x; i < n; i += gridDim.x * kBlock)
    Write(p, p.ray_of[i], p.rays[p.ray_of[i]], p.colors[i]);
}

template <typename T>
void LaunchWave(const char* name, void (*kernel)(WaveArguments<T>), const ViewParams<T>& params,
                int wave, Stream stream) {
  NERF_CHECK(params.sample_capacity >= params.ray_capacity);
  LaunchOver(name, kernel, params.ray_capacity, kBlock, stream,
             WaveArguments<T>{params, wave % 2 != 0});
}

template <typename T>
void LaunchStart(const ViewParams<T>& params, Stream stream) {
  NERF_CHECK(params.ray_capacity % kViewTileRays == 0);
  LaunchOver("start_view",
             params.has_horizons ? StartViewKernel<T, true> : StartViewKernel<T, false>,
             params.ray_capacity, kBlock, stream, params);
}

template <typename T>
void LaunchComposite(const ViewParams<T>& params, int wave, Stream stream) {
  LaunchWave("composite_view",
             params.has_horizons ? CompositeViewKernel<T, true> : CompositeViewKernel<T, false>,
             params, wave, stream);
}

template <typename T>
void LaunchHorizons(const char* name, void (*kernel)(ViewParams<T>), const ViewParams<T>& params,
                    Stream stream) {
  NERF_CHECK(params.has_horizons && params.sample_capacity >= params.ray_capacity);
  LaunchOver(name, kernel, params.ray_capacity, kBlock, stream, params);
}

}  // namespace

void StartView(const ViewParams<float>& params, Stream stream) { LaunchStart(params, stream); }
void StartView(const ViewParams<Half>& params, Stream stream) { LaunchStart(params, stream); }
void MarchView(const ViewParams<float>& params, int wave, Stream stream) {
  LaunchWave("march_view", MarchViewKernel<float>, params, wave, stream);
}
void MarchView(const ViewParams<Half>& params, int wave, Stream stream) {
  LaunchWave("march_view", MarchViewKernel<Half>, params, wave, stream);
}
void CompositeView(const ViewParams<float>& params, int wave, Stream stream) {
  LaunchComposite(params, wave, stream);
}
void CompositeView(const ViewParams<Half>& params, int wave, Stream stream) {
  LaunchComposite(params, wave, stream);
}
void ListHorizons(const ViewParams<float>& params, Stream stream) {
  LaunchHorizons("list_horizons", ListHorizonsKernel<float>, params, stream);
}
void ListHorizons(const ViewParams<Half>& params, Stream stream) {
  LaunchHorizons("list_horizons", ListHorizonsKernel<Half>, params, stream);
}
void FinishHorizons(const ViewParams<float>& params, Stream stream) {
  LaunchHorizons("finish_horizons", FinishHorizonsKernel<float>, params, stream);
}
void FinishHorizons(const ViewParams<Half>& params, Stream stream) {
  LaunchHorizons("finish_horizons", FinishHorizonsKernel<Half>, params, stream);
}

}  // namespace nerf::kernels::cuda
