#include "engine/field/kernels/ray_marching.h"

#include "engine/base/check.h"
#include "engine/field/kernels/composite.h"
#include "engine/field/kernels/cuda/block_reduce.cuh"
#include "engine/field/kernels/cuda/device_range.cuh"
#include "engine/field/kernels/cuda/launch.cuh"

// One thread per ray. A device has more threads than a step has rays, and its caches hold the
// occupancy bits, so the cost of marching is the latency of the longest ray of each warp. Waves of
// few samples keep that short, warps are filled with rays that go on, and samples are loaded
// several at a time.
namespace nerf::kernels::cuda {
namespace {

constexpr int kLoads = 8;  // of samples that a thread waits for together
constexpr int kHeld = 32;  // samples that a thread keeps between finding and writing them

struct WaveArguments {
  MarchParams march;
  int wave;
  int max_samples;
};

__device__ MarchSteps StepsOf(const MarchParams& p) {
  return p.step_scale == nullptr ? p.steps : p.steps.Scaled(*p.step_scale);
}

// Loads values[first] to values[first + kLoads - 1]; in place of those from `end` on, the last.
__device__ void Load(const float* values, uint32_t first, uint32_t end, float (&loaded)[kLoads]) {
#pragma unroll
  for (int j = 0; j < kLoads; ++j) loaded[j] = values[min(first + j, end - 1)];
}

// Composites a ray's samples of one wave: their weights and the remaining transmittance.
__device__ void Advance(const MarchParams& p, RaySegment segment, RayState* state) {
  const uint32_t end = segment.first + segment.n;
  for (uint32_t first = segment.first; first < end; first += kLoads) {
    float alphas[kLoads];
    Load(p.alphas, first, end, alphas);
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      const uint32_t i = first + j;
      if (i >= end) break;
      float weight = -1;
      if (IsVisible(state->transmittance, alphas[j], p.min_transmittance, p.alpha_threshold)) {
        const float alpha = EffectiveAlpha(alphas[j], state->transmittance, p.min_transmittance);
        if (alpha != alphas[j]) p.alphas[i] = alpha;
        weight = CompositeForwardStep(alpha, &state->transmittance);
        ++state->n_kept;
      }
      p.weights[i] = weight;
    }
  }
  if (state->transmittance < p.min_transmittance) state->march.t_exit = -1;
}

// A thread's samples between the march that finds them and the arrays.
struct HeldSamples {
  float t_middles[kHeld], deltas[kHeld];
  uint32_t cells[kHeld];

  // Writes the first n, which are ray r's, from index `first` on.
  __device__ void Write(const MarchParams& p, const MarchRay& ray, uint32_t r, uint64_t first,
                        int n) const {
    for (int j = 0; j < n; ++j) {
      const uint64_t i = first + j;
      const Vec3 position = ray.origin + ray.direction * t_middles[j];
      p.positions[i] = (position - p.box_min) * p.inverse_box_size;
      p.t_middles[i] = t_middles[j];
      p.deltas[i] = deltas[j];
      p.cells[i] = cells[j];
      p.ray_of[i] = r;
    }
  }
};

// A block's samples and rays that go on, in one sum.
constexpr uint32_t kOneAlive = 1u << 20;
static_assert(uint64_t{kBlock} * kWaveSamples[kWaves - 1] < kOneAlive &&
              uint64_t{kBlock} * kOneAlive < uint64_t{1} << 32);

__global__ void __launch_bounds__(kBlock)
    MarchWaveKernel(const __grid_constant__ WaveArguments arguments) {
  const MarchParams& p = arguments.march;
  const int wave = arguments.wave;
  __shared__ uint32_t block_first, block_first_alive;
  const MarchSteps steps = StepsOf(p);
  const bool holds = arguments.max_samples <= kHeld;  // all of a ray, so that it marches once
  const uint32_t n_rays = wave == 0 ? *p.n_rays : p.alive_counts[wave];
  const uint32_t* const alive = p.alive + size_t{p.ray_capacity} * (wave % 2);
  uint32_t* const alive_next = p.alive + size_t{p.ray_capacity} * ((wave + 1) % 2);
  const uint32_t wave_first =
      ElementsOf({p.sample_capacity, p.counts, wave}).begin;  // at most sample_capacity
  for (uint32_t base = blockIdx.x * blockDim.x; base < n_rays; base += gridDim.x * blockDim.x) {
    const uint32_t index = base + threadIdx.x;
    uint32_t r = 0;
    RayState state;
    MarchRay counted;
    HeldSamples held;
    int n = 0;
    bool goes_on = false;
    if (index < n_rays) {
      if (wave == 0) {
        r = index;
        state = {StartMarch(p.grid, steps, p.rays[r], p.jitters[r]), 1, 0, 0};
      } else {
        r = alive[index];
        state = p.states[r];
        Advance(p, p.segments[size_t{p.ray_capacity} * (wave - 1) + r], &state);
      }
      counted = state.march;
      if (counted.t_exit >= 0) {
        n = MarchSamples(p.grid, steps, arguments.max_samples, &counted,
                         holds ? held.t_middles : nullptr, held.deltas,
                         holds ? held.cells : nullptr);
      }
      goes_on = wave + 1 < kWaves && (n > 0 || counted.t_exit >= 0);
    }
    uint32_t total;
    const uint32_t before = BlockExclusiveSum(n + (goes_on ? kOneAlive : 0), &total);
    if (threadIdx.x == 0) {
      block_first = atomicAdd(p.counts + wave, total % kOneAlive);
      if (total >= kOneAlive)
        block_first_alive = atomicAdd(p.alive_counts + wave + 1, total / kOneAlive);
    }
    __syncthreads();
    if (goes_on) alive_next[block_first_alive + before / kOneAlive] = r;
    if (index < n_rays) {
      const uint64_t first = uint64_t{wave_first} + block_first + before % kOneAlive;
      if (first + n > p.sample_capacity) {
        *p.overflow = 1;
        n = 0;
        counted.t_exit = -1;
      } else if (holds) {
        held.Write(p, counted, r, first, n);
      } else {
        // March again. At most the counted number, even if the two passes round differently.
        int written = 0, found = 1;
        while (written < n && found > 0) {
          found = MarchSamples(p.grid, steps, min(kHeld, n - written), &state.march, held.t_middles,
                               held.deltas, held.cells);
          held.Write(p, counted, r, first + written, found);
          written += found;
        }
        n = written;
      }
      state.march = counted;
      state.n_waves = wave + 1;
      p.segments[size_t{p.ray_capacity} * wave + r] = {static_cast<uint32_t>(first),
                                                       static_cast<uint32_t>(n)};
      p.states[r] = state;
    }
    __syncthreads();  // before block_first is overwritten
  }
}

// Composites the samples of the last wave, if the ray was in it.
__device__ void AdvanceLast(const MarchParams& p, uint32_t r, RayState* state) {
  if (state->n_waves == kWaves)
    Advance(p, p.segments[size_t{p.ray_capacity} * (kWaves - 1) + r], state);
}

__global__ void __launch_bounds__(kBlock) AddHorizonsKernel(const __grid_constant__ MarchParams p) {
  __shared__ uint32_t block_first;
  const uint32_t n_rays = *p.n_rays, r = blockIdx.x * blockDim.x + threadIdx.x;
  const uint32_t first = ElementsOf({p.sample_capacity, p.counts, kHorizonPart}).begin;
  RayState state;
  bool has_light = false;
  if (r < n_rays) {
    state = p.states[r];
    AdvanceLast(p, r, &state);
    has_light = state.transmittance > 0 && state.transmittance >= p.min_transmittance;
  }
  uint32_t total;
  const uint32_t before = BlockExclusiveSum(has_light ? 1 : 0, &total);
  if (threadIdx.x == 0) block_first = atomicAdd(p.counts + kHorizonPart, total);
  __syncthreads();
  if (r >= n_rays) return;
  uint32_t horizon = kNoSample;
  if (has_light) {
    const uint64_t i = uint64_t{first} + block_first + before;
    if (i < p.sample_capacity) {
      horizon = static_cast<uint32_t>(i);
      p.positions[i] = p.space.HorizonUnit(p.rays[r].direction);
      p.t_middles[i] = 0;
      p.deltas[i] = 0;
      p.ray_of[i] = r;
      p.alphas[i] = 1;
      p.weights[i] = CompositeForwardStep(1, &state.transmittance);
      ++state.n_kept;
    } else {
      *p.overflow = 1;
    }
  }
  p.horizons[r] = horizon;
  p.states[r] = state;
}

// One block per kRayBlock rays: later blocks add up the sums of the blocks before them.
template <bool kHorizons>
__global__ void __launch_bounds__(kBlock) FinishRaysKernel(const __grid_constant__ MarchParams p) {
  const uint32_t r = blockIdx.x * blockDim.x + threadIdx.x;
  uint32_t n_kept = 0;
  if (r < *p.n_rays) {
    RayState state = p.states[r];
    if (!kHorizons && state.n_waves == kWaves) {
      AdvanceLast(p, r, &state);
      p.states[r] = state;
    }
    if (*p.overflow == 0) n_kept = state.n_kept;
  }
  uint32_t total;
  BlockExclusiveSum(n_kept, &total);
  if (threadIdx.x == 0) p.block_sums[blockIdx.x] = total;
}

template <bool kHorizons>
__global__ void __launch_bounds__(kBlock)
    CompactSamplesKernel(const __grid_constant__ MarchParams p) {
  uint32_t in_front = 0;
  for (uint32_t block = threadIdx.x; block < blockIdx.x; block += blockDim.x)
    in_front += p.block_sums[block];
  uint32_t block_first;
  BlockExclusiveSum(in_front, &block_first);

  const uint32_t n_rays = *p.n_rays, r = blockIdx.x * blockDim.x + threadIdx.x;
  const bool overflow = *p.overflow != 0;
  const uint32_t n_kept = r < n_rays && !overflow ? p.states[r].n_kept : 0;
  uint32_t total;
  uint32_t row = block_first + BlockExclusiveSum(n_kept, &total);
  if (r < n_rays) p.ray_offsets[r] = row;
  if (r == n_rays - 1) {
    p.ray_offsets[n_rays] = row + n_kept;
    p.counts[kKeptPart] = row + n_kept;
  }
  if (n_kept == 0) return;
  const uint32_t n_waves = p.states[r].n_waves;
  for (uint32_t wave = 0; wave < n_waves; ++wave) {
    const RaySegment segment = p.segments[size_t{p.ray_capacity} * wave + r];
    const uint32_t end = segment.first + segment.n;
    for (uint32_t first = segment.first; first < end; first += kLoads) {
      float weights[kLoads];
      Load(p.weights, first, end, weights);
#pragma unroll
      for (int j = 0; j < kLoads; ++j)
        if (first + j < end && weights[j] >= 0) p.rows[row++] = first + j;
    }
  }
  if constexpr (kHorizons) {
    if (p.horizons[r] != kNoSample) p.rows[row] = p.horizons[r];
  }
}

void LaunchByRays(const char* name, void (*kernel)(MarchParams), const MarchParams& params,
                  Stream stream) {
  static_assert(kRayBlock == kBlock);
  Launch(name, kernel, static_cast<int>(RayBlocks(params.ray_capacity)), kBlock, 0, stream, params);
}

}  // namespace

void MarchWave(const MarchParams& params, int wave, Stream stream) {
  NERF_CHECK(wave >= 0 && wave < kWaves);
  LaunchOver("march_wave", MarchWaveKernel, params.ray_capacity, kBlock, stream,
             WaveArguments{params, wave, kWaveSamples[wave]});
}

void AddHorizons(const MarchParams& params, Stream stream) {
  NERF_CHECK(params.horizons != nullptr);
  LaunchByRays("add_horizons", AddHorizonsKernel, params, stream);
}

void CompactSamples(const MarchParams& params, Stream stream) {
  const bool horizons = params.horizons != nullptr;
  LaunchByRays("finish_rays", horizons ? FinishRaysKernel<true> : FinishRaysKernel<false>, params,
               stream);
  LaunchByRays("compact_samples",
               horizons ? CompactSamplesKernel<true> : CompactSamplesKernel<false>, params, stream);
}

}  // namespace nerf::kernels::cuda
