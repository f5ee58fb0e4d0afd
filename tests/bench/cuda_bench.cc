// Measures the CUDA kernels at the sizes of a large training step, whole steps, and the device's
// ceilings, and prints a Markdown table: time per call, rates, and the rates' fraction of the
// ceilings, which are measured first. Ten calls are recorded as one graph, so that short calls are
// not dominated by launch latency, and graphs run back to back. Inputs that a call overwrites are
// restored before it; the time of the restoring alone is measured and subtracted. Times are
// wall-clock. Whole steps, whose counts the host reads, run one at a time; for them the time
// between the device's first and last work, by the device's clock, is also reported.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/clock.h"
#include "common/status_macros.h"
#include "engine/base/buffer.h"
#include "engine/base/config/train_config.h"
#include "engine/base/philox.h"
#include "engine/field/kernels/adam.h"
#include "engine/field/kernels/composite.h"
#include "engine/field/kernels/cuda/device.h"
#include "engine/field/kernels/hash_encoding.h"
#include "engine/field/kernels/ngp_mlp.h"
#include "engine/field/kernels/occupancy_update.h"
#include "engine/field/kernels/ray_marching.h"
#include "engine/field/kernels/spherical_harmonics.h"
#include "engine/field/occupancy_grid.h"
#include "engine/methods/ngp/network.h"
#include "engine/methods/ngp/steps.h"
#include "engine/program/bench/bench_registry.h"
#include "engine/program/bench/synthetic_scene.h"
#include "engine/program/device/device.h"
#include "engine/program/device/device_monitor.h"
#include "engine/program/device/exception_border.h"
#include "engine/train/schedule.h"
#include "engine/views/render/renderer.h"
#include "fmt/format.h"
#include "tests/bench/cuda_ceilings.h"

namespace nerf {
namespace {

namespace cuda = kernels::cuda;

constexpr int kSamplesPerRay = 8;

struct Arguments {
  double seconds = 0.3;  // for each
  uint32_t log2_samples = 18;
  uint32_t ceiling_rounds = 4096;
  uint32_t log2_copy_bytes = 30;
  bool with_step = true;
};

template <typename T>
Buffer<T> OnDevice(const std::vector<T>& values, kernels::Stream stream) {
  Buffer<T> buffer(values.size(), cuda::DeviceAllocator());
  cuda::CopyToDevice(buffer.data(), values.data(), buffer.byte_size(), stream);
  cuda::Synchronize(stream);
  return buffer;
}
template <typename T>
Buffer<T> Zeros(size_t n) {
  return Buffer<T>(n, cuda::DeviceAllocator());
}

float Random(uint32_t use, uint32_t i) {
  return UniformFloat(RandomWords(1, RandomUse::kTest, use, i)[0]);
}
std::vector<Half> RandomHalfs(size_t n, float scale) {
  std::vector<Half> values(n);
  for (size_t i = 0; i < n; ++i)
    values[i] = HalfFromFloat(scale * (2 * Random(2, static_cast<uint32_t>(i)) - 1));
  return values;
}

// Points on short pieces of random rays through the unit cube, one marching step apart.
std::vector<Vec3> RaySamples(uint32_t n) {
  constexpr float kStep = 1.7e-3f;
  std::vector<Vec3> samples(n);
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t ray = i / kSamplesPerRay;
    const Vec3 origin{Random(3, ray), Random(4, ray), Random(5, ray)};
    const Vec3 direction =
        Normalized({Random(6, ray) - 0.5f, Random(7, ray) - 0.5f, Random(8, ray) - 0.5f});
    samples[i] = origin * 0.9f + direction * (kStep * static_cast<float>(i % kSamplesPerRay)) +
                 Vec3{0.05f, 0.05f, 0.05f};
  }
  return samples;
}

// The arrays that the ops of one step read and write, in half precision.
struct StepArrays {
  StepArrays(uint32_t n, kernels::Stream stream)
      : n(n),
        shape(NgpHashGridShape({})),
        positions(OnDevice(RaySamples(n), stream)),
        table(OnDevice(RandomHalfs(shape.n_levels * shape.level_size(), 0.1f), stream)),
        weights(OnDevice(RandomHalfs(kNgpWeights, 0.2f), stream)),
        encodings(Zeros<Half>(size_t{kEncodingWidth} * n)),
        geometry(Zeros<Half>(size_t{kGeometryWidth} * n)),
        harmonics(Zeros<Half>(size_t{kDirectionWidth} * n)),
        ray_of(OnDevice(RayOf(n), stream)),
        rows(OnDevice(Identity(n), stream)),
        deltas(Zeros<float>(n)),
        sigmas(Zeros<float>(n)),
        alphas(Zeros<float>(n)),
        weights_of_samples(OnDevice(std::vector<float>(n, 0.1f), stream)),
        grads(OnDevice(std::vector<float>(4 * size_t{n}, 0.1f), stream)),
        grad_encodings(OnDevice(std::vector<float>(size_t{kEncodingWidth} * n, 1e-3f), stream)),
        weight_gradients(Zeros<float>(size_t{kNgpWeights} * cuda::NgpBackwardBlocks<Half>())),
        grad_table(Zeros<float>(table.size())),
        step_gradients(Zeros<float>(table.size())),
        network_parameters(Zeros<float>(kNgpWeights)),
        network_first(Zeros<float>(kNgpWeights)),
        network_second(Zeros<float>(kNgpWeights)),
        parameters(Zeros<float>(table.size())),
        first(Zeros<float>(table.size())),
        second(Zeros<float>(table.size())),
        rays(OnDevice(RaysAcross(n / kSamplesPerRay), stream)),
        jitters(Zeros<float>(rays.size())),
        states(Zeros<cuda::RayState>(rays.size())),
        segments(Zeros<cuda::RaySegment>(cuda::kWaves * rays.size())),
        offsets(OnDevice(EveryEighth(rays.size()), stream)),
        march_offsets(Zeros<uint32_t>(rays.size() + 1)),
        block_sums(Zeros<uint32_t>(cuda::RayBlocks(static_cast<uint32_t>(rays.size())))),
        n_rays(OnDevice(std::vector<uint32_t>{static_cast<uint32_t>(rays.size())}, stream)),
        alive(Zeros<uint32_t>(2 * rays.size())),
        counts(Zeros<uint32_t>(cuda::kMarchParts + 1 + cuda::kWaves)),
        cells(Zeros<uint32_t>(n)),
        march_ray_of(Zeros<uint32_t>(n)),
        march_rows(Zeros<uint32_t>(n)),
        t_middles(Zeros<float>(n)),
        march_weights(Zeros<float>(n)),
        march_positions(Zeros<Vec3>(n)),
        targets(Zeros<Vec3>(rays.size())),
        one(OnDevice(std::vector<float>{1}, stream)),
        losses(Zeros<double>(2 * cuda::kLossBlocks)),
        grid(FullOccupancyGrid({{-1, -1, -1}, {1, 1, 1}}, 1, 128)),
        grid_blocks(OnDevice(grid.occupied_blocks, stream)),
        grid_allowed(OnDevice(std::vector(grid.occupied_blocks.size(), ~uint64_t{0}), stream)),
        grid_values(OnDevice(std::vector<float>(64 * grid.occupied_blocks.size(), 0.1f), stream)),
        grid_sums(Zeros<double>(cuda::kMeanBlocks)),
        grid_count(Zeros<uint32_t>(1)),
        colors(Zeros<Vec3>(n)),
        settings(OnDevice(std::vector<cuda::AdamStepSettings>(1), stream)),
        skip(Zeros<uint32_t>(1)) {}

  // Rays that cross all parts of the cube around the origin.
  static std::vector<Ray> RaysAcross(uint32_t n) {
    std::vector<Ray> rays(n);
    for (uint32_t i = 0; i < n; ++i) {
      const Vec3 origin{3 * Random(9, i) - 1.5f, 3 * Random(10, i) - 1.5f, -2.5f};
      const Vec3 to{2 * Random(11, i) - 1, 2 * Random(12, i) - 1, 2 * Random(13, i) - 1};
      rays[i] = {origin, Normalized(to - origin), 0.05f};
    }
    return rays;
  }
  static std::vector<uint32_t> EveryEighth(size_t n) {
    std::vector<uint32_t> offsets(n + 1);
    for (uint32_t i = 0; i <= n; ++i) offsets[i] = kSamplesPerRay * i;
    return offsets;
  }
  static std::vector<uint32_t> RayOf(uint32_t n) {
    std::vector<uint32_t> rays(n);
    for (uint32_t i = 0; i < n; ++i) rays[i] = i / kSamplesPerRay;
    return rays;
  }
  static std::vector<uint32_t> Identity(uint32_t n) {
    std::vector<uint32_t> rows(n);
    for (uint32_t i = 0; i < n; ++i) rows[i] = i;
    return rows;
  }

  const uint32_t n;
  const kernels::HashGridShape shape;
  Buffer<Vec3> positions;
  Buffer<Half> table, weights, encodings, geometry, harmonics;
  Buffer<uint32_t> ray_of, rows;
  Buffer<float> deltas, sigmas, alphas, weights_of_samples, grads, grad_encodings, weight_gradients;
  Buffer<float> grad_table, step_gradients;  // what AdamSparse consumes, and the original of it
  Buffer<float> network_parameters, network_first, network_second;
  Buffer<float> parameters, first, second;
  Buffer<Ray> rays;
  Buffer<float> jitters;
  Buffer<cuda::RayState> states;
  Buffer<cuda::RaySegment> segments;
  Buffer<uint32_t> offsets, march_offsets, block_sums, n_rays, alive, counts, cells, march_ray_of;
  Buffer<uint32_t> march_rows;
  Buffer<float> t_middles, march_weights;
  Buffer<Vec3> march_positions, targets;
  Buffer<float> one;
  Buffer<double> losses;
  const OccupancyGrid grid;
  Buffer<uint64_t> grid_blocks, grid_allowed;
  Buffer<float> grid_values;
  Buffer<double> grid_sums;
  Buffer<uint32_t> grid_count;
  Buffer<Vec3> colors;
  Buffer<cuda::AdamStepSettings> settings;
  Buffer<uint32_t> skip;
};

// An op to measure: run() puts its work into the stream and returns the amount.
struct CudaBench {
  std::string name, item;
  std::function<BenchWork()> run;
  std::function<void()> prepare = nullptr;  // before each call; its time is subtracted
  bool reads_back = false;  // each call reads from the device, so it cannot be recorded
  std::function<std::string()> remark = nullptr;  // printed with the result
};

// Parameters of a first wave through a full grid, with as many samples as fit.
cuda::MarchParams March(StepArrays* a) {
  cuda::MarchParams march;
  march.grid = MarchGridOf(a->grid);
  march.grid.blocks = a->grid_blocks.data();
  march.steps = {.step = 2 * std::sqrt(3.0f) / 1024, .cone = 0};
  march.box_min = a->grid.box.min;
  march.inverse_box_size = {0.5f, 0.5f, 0.5f};
  march.min_transmittance = 3e-2f;
  march.ray_capacity = static_cast<uint32_t>(a->rays.size());
  march.n_rays = a->n_rays.data();
  march.rays = a->rays.data();
  march.jitters = a->jitters.data();
  march.states = a->states.data();
  march.segments = a->segments.data();
  march.sample_capacity = a->n;
  march.counts = a->counts.data();
  march.overflow = a->counts.data() + cuda::kMarchParts;
  march.alive = a->alive.data();
  march.alive_counts = a->counts.data() + cuda::kMarchParts + 1;
  march.t_middles = a->t_middles.data();
  march.deltas = a->deltas.data();
  march.cells = a->cells.data();
  march.ray_of = a->march_ray_of.data();
  march.positions = a->march_positions.data();
  march.alphas = a->alphas.data();
  march.weights = a->march_weights.data();
  march.block_sums = a->block_sums.data();
  march.ray_offsets = a->march_offsets.data();
  march.rows = a->march_rows.data();
  return march;
}

// Computes the gradients that AdamSparse consumes. Returns the bytes that AdamSparse moves: all
// gradients, and 30 per element of each vector of four with a nonzero gradient.
double StepGradients(StepArrays* a, kernels::Stream stream) {
  cuda::HashEncodeBackward({.shape = a->shape,
                            .range = {a->n},
                            .positions = a->positions.data(),
                            .grad_features = a->grad_encodings.data(),
                            .stride = a->n,
                            .grad_table = a->step_gradients.data()},
                           stream);
  std::vector<float> gradients(a->step_gradients.size());
  cuda::CopyToHost(gradients.data(), a->step_gradients.data(), a->step_gradients.byte_size(),
                   stream);
  cuda::Synchronize(stream);
  double bytes = 4.0 * static_cast<double>(gradients.size());
  for (size_t i = 0; i < gradients.size(); i += 4) {
    if (std::any_of(&gradients[i], &gradients[i] + 4, [](float x) { return x != 0; }))
      bytes += 4 * 30;
  }
  return bytes;
}

std::vector<CudaBench> FieldOps(const std::shared_ptr<StepArrays>& a, kernels::Stream stream) {
  const double n = a->n;
  const kernels::DeviceRange all{a->n};
  const double reads = 8.0 * a->shape.n_levels * n;
  return {
      {"hash_encoding_forward", "samples",
       [=]() -> BenchWork {
         cuda::HashEncodeForward(
             cuda::HashEncodeForwardParams<Half>{.shape = a->shape,
                                                 .table = a->table.data(),
                                                 .range = all,
                                                 .positions = a->positions.data(),
                                                 .features = a->encodings.data(),
                                                 .stride = a->n},
             stream);
         return {.items = n, .bytes = n * (12 + 2 * kEncodingWidth) + 8 * reads, .gathers = reads};
       }},
      {"ngp_density", "samples",
       [=]() -> BenchWork {
         cuda::NgpDensity(cuda::NgpDensityParams<Half>{.range = all,
                                                       .weights = a->weights.data(),
                                                       .encodings = a->encodings.data(),
                                                       .stride = a->n,
                                                       .deltas = a->deltas.data(),
                                                       .sigmas = a->sigmas.data(),
                                                       .alphas = a->alphas.data(),
                                                       .geometry = a->geometry.data()},
                          stream);
         return {.items = n, .bytes = n * (64 + 32 + 12), .flops = n * 2 * (32 * 64 + 64 * 16)};
       }},
      {"ngp_color", "samples",
       [=]() -> BenchWork {
         cuda::NgpColor(cuda::NgpColorParams<Half>{.range = all,
                                                   .weights = a->weights.data(),
                                                   .rows = a->rows.data(),
                                                   .ray_of = a->ray_of.data(),
                                                   .harmonics = a->harmonics.data(),
                                                   .geometry = a->geometry.data(),
                                                   .colors = a->colors.data()},
                        stream);
         return {.items = n, .bytes = n * 84, .flops = n * 2 * (32 * 64 + 64 * 64 + 64 * 8)};
       }},
      {"ngp_backward", "samples",
       [=]() -> BenchWork {
         cuda::NgpBackward(
             cuda::NgpBackwardParams<Half>{.range = all,
                                           .n_blocks = cuda::NgpBackwardBlocks<Half>(),
                                           .weights = a->weights.data(),
                                           .rows = a->rows.data(),
                                           .ray_of = a->ray_of.data(),
                                           .harmonics = a->harmonics.data(),
                                           .encodings = a->encodings.data(),
                                           .stride = a->n,
                                           .grads = a->grads.data(),
                                           .grad_encodings = a->grad_encodings.data(),
                                           .grad_stride = a->n,
                                           .weight_gradients = a->weight_gradients.data()},
             stream);
         return {.items = n, .bytes = n * 248, .flops = n * 57e3};
       }},
      {"hash_encoding_backward", "samples",
       [=]() -> BenchWork {
         cuda::HashEncodeBackward({.shape = a->shape,
                                   .range = all,
                                   .positions = a->positions.data(),
                                   .grad_features = a->grad_encodings.data(),
                                   .stride = a->n,
                                   .grad_table = a->grad_table.data()},
                                  stream);
         return {.items = n, .bytes = n * (12 + 4 * kEncodingWidth), .gathers = reads};
       }},
  };
}

std::vector<CudaBench> RayOps(const std::shared_ptr<StepArrays>& a, kernels::Stream stream) {
  const double n = a->n;
  const auto n_rays = static_cast<double>(a->rays.size());
  const cuda::MarchParams march = March(a.get());
  const double n_first_wave = n_rays * cuda::kWaveSamples[0];
  return {
      {"march_wave (the first)", "samples",
       [=]() -> BenchWork {
         cuda::MarchWave(march, 0, stream);
         return {.items = n_first_wave, .bytes = n_rays * 112 + n_first_wave * 36};
       },
       [=] { cuda::Fill(a->counts.data(), 0, a->counts.byte_size(), stream); }},
      {"spherical_harmonics", "rays",
       [=]() -> BenchWork {
         cuda::SphericalHarmonics(
             cuda::SphericalHarmonicsParams<Half>{.range = {a->n / kSamplesPerRay},
                                                  .rays = a->rays.data(),
                                                  .harmonics = a->harmonics.data()},
             stream);
         return {.items = n / kSamplesPerRay, .bytes = n / kSamplesPerRay * 64};
       }},
      {"composite_loss", "samples",
       [=]() -> BenchWork {
         cuda::CompositeLoss({.ray_capacity = static_cast<uint32_t>(a->rays.size()),
                              .n_rays = a->n_rays.data(),
                              .ray_offsets = a->offsets.data(),
                              .rows = a->rows.data(),
                              .alphas = a->weights_of_samples.data(),
                              .deltas = a->deltas.data(),
                              .sigmas = a->sigmas.data(),
                              .weights = a->weights_of_samples.data(),
                              .t_middles = a->t_middles.data(),
                              .steps = march.steps,
                              .step_scale = a->one.data(),
                              .colors = a->colors.data(),
                              .targets = a->targets.data(),
                              .backgrounds = a->targets.data(),
                              .gradient_scale = a->one.data(),
                              .loss = LossShapeOf(TrainConfig()),
                              .distortion = a->one.data(),
                              .grads = a->grads.data(),
                              .losses = a->losses.data()},
                             stream);
         return {.items = n, .bytes = n * 72 + n_rays * 40};
       }},
  };
}

// Updates of the parameters and of the occupancy grid.
std::vector<CudaBench> UpdateOps(const std::shared_ptr<StepArrays>& a, kernels::Stream stream) {
  const auto n_cells = static_cast<double>(a->grid_values.size());
  const double adam_bytes = StepGradients(a.get(), stream);
  return {
      {"adam_dense", "parameters",
       [=]() -> BenchWork {
         cuda::AdamDense({.settings = a->settings.data(),
                          .skip = a->skip.data(),
                          .n = kNgpWeights,
                          .n_parts = cuda::NgpBackwardBlocks<Half>(),
                          .gradients = a->weight_gradients.data(),
                          .parameters = a->network_parameters.data(),
                          .first_moments = a->network_first.data(),
                          .second_moments = a->network_second.data()},
                         stream);
         return {.items = kNgpWeights,
                 .bytes = kNgpWeights * (24.0 + 4.0 * cuda::NgpBackwardBlocks<Half>())};
       }},
      {"moving_average", "parameters",
       [=]() -> BenchWork {
         const auto size = static_cast<double>(a->table.size());
         cuda::MovingAverage({.decay = 0.95f,
                              .n = static_cast<int64_t>(a->table.size()),
                              .parameters = a->parameters.data(),
                              .averages = a->first.data()},
                             stream);
         return {.items = size, .bytes = 12 * size};
       }},
      {"probe_cells (one in four)", "cells",
       [=]() -> BenchWork {
         cuda::ProbeCells({.end_block = static_cast<uint32_t>(a->grid.occupied_blocks.size()),
                           .resolution = a->grid.resolution,
                           .center = {},
                           .half_size = {1, 1, 1},
                           .box_min = a->grid.box.min,
                           .box_size = a->grid.box.Size(),
                           .periods = {4, 4},
                           .blocks = a->grid_blocks.data(),
                           .allowed = a->grid_allowed.data(),
                           .decay = 1,
                           .values = a->grid_values.data(),
                           .capacity = a->n,
                           .count = a->grid_count.data(),
                           .positions = a->march_positions.data(),
                           .cells = a->cells.data()},
                          stream);
         return {.items = n_cells, .bytes = 8 * n_cells};
       },
       [=] { cuda::Fill(a->grid_count.data(), 0, a->grid_count.byte_size(), stream); }},
      {"set_occupied_bits", "cells",
       [=]() -> BenchWork {
         cuda::SetOccupiedBits({.n_blocks = static_cast<uint32_t>(a->grid.occupied_blocks.size()),
                                .values = a->grid_values.data(),
                                .threshold = 0.03f,
                                .allowed = a->grid_allowed.data(),
                                .sums = a->grid_sums.data(),
                                .blocks = a->grid_blocks.data(),
                                .n_occupied = a->grid_count.data()},
                               stream);
         return {.items = n_cells, .bytes = 8 * n_cells};
       }},
      {"adam_sparse", "parameters",
       [=]() -> BenchWork {
         const auto size = static_cast<double>(a->table.size());
         cuda::AdamSparse({.settings = a->settings.data(),
                           .skip = a->skip.data(),
                           .n = static_cast<int64_t>(a->table.size()),
                           .gradients = a->grad_table.data(),
                           .parameters = a->parameters.data(),
                           .first_moments = a->first.data(),
                           .second_moments = a->second.data(),
                           .half_copies = a->table.data()},
                          stream);
         return {.items = size, .bytes = adam_bytes};
       },
       [=] {
         cuda::CopyOnDevice(a->grad_table.data(), a->step_gradients.data(),
                            a->grad_table.byte_size(), stream);
       }},
  };
}

// All ops of a training step, by the part of the step that they belong to.
std::vector<CudaBench> Ops(const std::shared_ptr<StepArrays>& a, kernels::Stream stream) {
  std::vector<CudaBench> ops = RayOps(a, stream);
  for (const auto& more : {FieldOps(a, stream), UpdateOps(a, stream)})
    ops.insert(ops.end(), more.begin(), more.end());
  return ops;
}

std::vector<CudaBench> Ceilings(const Arguments& arguments, kernels::Stream stream) {
  const size_t byte_size = size_t{1} << arguments.log2_copy_bytes;
  const auto from = std::make_shared<Buffer<char>>(byte_size, cuda::DeviceAllocator());
  const auto to = std::make_shared<Buffer<char>>(byte_size, cuda::DeviceAllocator());
  const auto sink = std::make_shared<Buffer<float>>(1, cuda::DeviceAllocator());
  std::vector<CudaBench> benches = {
      {"ceiling_copy", "bytes",
       [=]() -> BenchWork {
         cuda::CopyOnDevice(to->data(), from->data(), byte_size, stream);
         return {.items = 2.0 * byte_size, .bytes = 2.0 * byte_size};
       }},
      {"ceiling_matrix", "products", [=]() -> BenchWork {
         const double flops =
             ceilings::MatrixLoop({arguments.ceiling_rounds, sink->data()}, stream);
         return {.items = flops / (2 * 16 * 8 * 16), .flops = flops};
       }}};
  // A level's table of 2^17 entries of four halves, and all eight: 1 and 8 MiB, both in the L2.
  for (const uint32_t log2_entries : {17u, 20u}) {
    const auto table =
        std::make_shared<Buffer<uint64_t>>(size_t{1} << log2_entries, cuda::DeviceAllocator());
    const auto sum = std::make_shared<Buffer<uint64_t>>(1, cuda::DeviceAllocator());
    benches.push_back(
        {fmt::format("ceiling_gather_2^{}", log2_entries), "reads", [=]() -> BenchWork {
           const double reads = ceilings::GatherLoop(
               {table->data(), (1u << log2_entries) - 1, arguments.ceiling_rounds / 4, sum->data()},
               stream);
           return {.items = reads, .bytes = 8 * reads, .gathers = reads};
         }});
  }
  return benches;
}

// A whole step of about n trained samples on a small scene, after the first hundred steps.
CudaBench Step(uint32_t n_samples) {
  struct Training {
    Scene scene = SyntheticBallScene(16, 0, 256);
    TrainConfig config;
    std::unique_ptr<TrainingStep> step;
    PixelBatch batch;
    double seconds = 0, device_seconds = 0;  // of the measured steps
    int64_t n_marched = 0, n_trained = 0;
  };
  const auto training = std::make_shared<Training>();
  Training& t = *training;
  t.config.target_samples = static_cast<int>(n_samples);
  t.config.batch_growth = 1;
  t.config.warmup_steps = 0;
  t.config.initial_step_scale = 1;
  t.config.distortion = 0;
  t.config.max_rays = std::max(t.config.max_rays, t.config.target_samples);
  const RaySource source{t.scene.train, Background::kRandom, t.scene.geometry.near};
  t.step = NewNgpCudaStep(t.config, t.scene.geometry, &source);
  auto run = [training]() -> BenchWork {
    Training& now = *training;
    const RealClock clock;
    const SteadyTime begin = clock.Now();
    now.batch.n_pixels = now.step->NextPixels(0);
    const StepResult result = now.step->Run(now.batch);
    ++now.batch.step;
    now.seconds += absl::ToDoubleSeconds(clock.Now() - begin);
    now.device_seconds += result.device_seconds;
    now.n_marched += result.n_marched;
    now.n_trained += result.n_trained;
    return {.items = static_cast<double>(result.n_trained)};
  };
  constexpr int kStepsBefore = 100;
  for (int i = 0; i < kStepsBefore; ++i) run();
  t.seconds = t.device_seconds = 0;
  t.n_marched = t.n_trained = 0;
  const auto remark = [training] {
    const Training& now = *training;
    return fmt::format("the device is at it {:.1f}% of the time; {:.2f} marched for each trained",
                       100 * now.device_seconds / now.seconds,
                       static_cast<double>(now.n_marched) / static_cast<double>(now.n_trained));
  };
  return {"training_step", "trained samples", run, nullptr, true, remark};
}

struct Figures {
  double seconds_per_call = 0;
  BenchWork per_second;
};

constexpr int kCallsAtOnce = 10;

// Mean seconds of a call of `run`, which is repeated for `seconds`.
double SecondsOf(double seconds, kernels::Stream stream, const std::function<void()>& run) {
  const RealClock clock;
  run();
  cuda::Synchronize(stream);
  const int at_once = seconds > 0 ? 10 : 1;
  int n_runs = 0;
  double spent = 0;
  const SteadyTime begin = clock.Now();
  do {
    for (int i = 0; i < at_once; ++i) run();
    cuda::Synchronize(stream);
    n_runs += at_once;
    spent = absl::ToDoubleSeconds(clock.Now() - begin);
  } while (spent < seconds);
  return spent / n_runs;
}

Figures FiguresOf(double seconds_per_call, const BenchWork& call) {
  const double s = seconds_per_call;
  return {s, {call.items / s, call.bytes / s, call.flops / s, call.gathers / s}};
}

Figures Measure(const CudaBench& bench, double seconds, kernels::Stream stream) {
  if (bench.reads_back) {
    BenchWork work;
    int n_calls = 0;
    const double each = SecondsOf(seconds, stream, [&] {
      work.Add(bench.run());
      ++n_calls;
    });
    const double n = n_calls;
    return FiguresOf(each, {work.items / n, work.bytes / n, work.flops / n, work.gathers / n});
  }
  BenchWork work;
  const auto seconds_of_graph = [&](bool with_call) {
    const cuda::Graph graph(stream, [&] {
      for (int i = 0; i < kCallsAtOnce; ++i) {
        if (bench.prepare != nullptr) bench.prepare();
        if (with_call) work = bench.run();
      }
    });
    return SecondsOf(seconds, stream, [&] { graph.Launch(stream); });
  };
  double each = seconds_of_graph(true);
  if (bench.prepare != nullptr) each -= seconds_of_graph(false);
  return FiguresOf(each / kCallsAtOnce, work);
}

absl::Status Run(const Arguments& arguments) {
  NERF_RETURN_IF_ERROR(CheckDevice("cuda:0"));
  cuda::UseDevice(0);
  const cuda::OwnedStream owned;
  const kernels::Stream stream = owned.get();
  fmt::print("| op | a call, us | a second | of the ceiling |\n|---|---:|---:|---|\n");
  const auto print = [&](const CudaBench& bench, const BenchWork* ceiling) {
    const Figures figures = Measure(bench, arguments.seconds, stream);
    const BenchWork& rate = figures.per_second;
    std::string shares;
    const auto share = [&](double own, double most, const char* what) {
      if (own > 0 && most > 0)
        shares +=
            fmt::format("{}{:.0f}% of {}", shares.empty() ? "" : ", ", 100 * own / most, what);
    };
    if (ceiling != nullptr) {
      share(rate.flops, ceiling->flops, "the matrix rate");
      share(rate.gathers, ceiling->gathers, "random reads");
      if (rate.gathers == 0) share(rate.bytes, ceiling->bytes, "copying");
    }
    std::string rates = fmt::format("{:.4g} G {}", rate.items / 1e9, bench.item);
    if (rate.flops > 0) rates += fmt::format(", {:.4g} TFLOP", rate.flops / 1e12);
    if (rate.bytes > 0 && rate.gathers == 0 && bench.item != "bytes")
      rates += fmt::format(", {:.4g} GB", rate.bytes / 1e9);
    if (bench.remark != nullptr) shares = bench.remark();
    fmt::print("| {} | {:.1f} | {} | {} |\n", bench.name, 1e6 * figures.seconds_per_call, rates,
               shares);
    std::fflush(stdout);
    return rate;
  };
  BenchWork ceiling;
  for (const CudaBench& bench : Ceilings(arguments, stream)) {
    const BenchWork rate = print(bench, nullptr);
    if (bench.name == "ceiling_copy") ceiling.bytes = rate.bytes;
    ceiling.flops = std::max(ceiling.flops, rate.flops);
    if (bench.name == "ceiling_gather_2^17") ceiling.gathers = rate.gathers;
  }
  const uint32_t n = 1u << arguments.log2_samples;
  for (const CudaBench& bench : Ops(std::make_shared<StepArrays>(n, stream), stream))
    print(bench, &ceiling);
  if (arguments.with_step) print(Step(n), nullptr);
  return absl::OkStatus();
}

}  // namespace
}  // namespace nerf

namespace nerf {
namespace {

// Prints the device memory in use by all processes, as training's progress lines report it, while
// this process has a context and nothing else: the base of a training's memory use.
absl::Status PrintEmptyContext() {
  NERF_RETURN_IF_ERROR(CheckDevice("cuda:0"));
  cuda::UseDevice(0);
  const auto monitor = DeviceMonitor::Open(cuda::DescribeDevice(0).pci_bus_id);
  if (monitor == nullptr) return absl::UnavailableError("no NVML");
  TrainProgress figures;
  monitor->Read(&figures);
  const double used = figures.gpu_memory_used_bytes;
  fmt::print("{{\"memory_used_bytes\":{:.0f}}}\n", std::isfinite(used) ? used : 0);
  return absl::OkStatus();
}

}  // namespace
}  // namespace nerf

int main(int argc, char** argv) {
  nerf::Arguments arguments;
  bool smallest = false, empty_context = false;
  CLI::App app("Measures the CUDA kernels beside the device's ceilings");
  app.add_option("--seconds", arguments.seconds, "for each")->capture_default_str();
  app.add_flag("--smallest", smallest,
               "every op once on next to nothing: shows that it runs, measures nothing");
  app.add_flag("--empty-context", empty_context,
               "only print how much memory is in use beside a context without anything in it");
  CLI11_PARSE(app, argc, argv);
  if (smallest) arguments = {0, 6, 8, 12, false};
  const absl::Status status = nerf::Guarded(
      [&] { return empty_context ? nerf::PrintEmptyContext() : nerf::Run(arguments); });
  if (status.ok()) return 0;
  fmt::print(stderr, "cuda_bench: {}\n", status.ToString());
  return 1;
}
