#include "engine/program/bench/op_benches.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "engine/base/buffer.h"
#include "engine/base/layouts/ngp_layers.h"
#include "engine/base/philox.h"
#include "engine/field/kernels/activation.h"
#include "engine/field/kernels/adam.h"
#include "engine/field/kernels/composite.h"
#include "engine/field/kernels/dense_layer.h"
#include "engine/field/kernels/hash_encoding.h"
#include "engine/field/kernels/ray_marching.h"
#include "engine/field/kernels/spherical_harmonics.h"
#include "engine/field/occupancy_grid.h"
#include "engine/field/ray_wave.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr int kRays = 2048;
constexpr int kSamplesPerRay = 8;
constexpr int kSamples = kRays * kSamplesPerRay;
constexpr int kBatch = 512;  // samples of one call, as the training step makes them
// Calls of a small op in one run. A run then takes at least a millisecond, so that waking the
// pool's threads does not count.
constexpr int kCalls = 64;

// Sizes of a training step of method ngp.
constexpr int kTable = 17;  // log2 of the entries of a level
constexpr int kRaysInFlight = 512, kSamplesAhead = 16;

// The default hash encoding, with another number of entries.
kernels::HashGridShape EncodingShape(int log2_entries) {
  return kernels::MakeHashGridShape(8, 4, log2_entries, 16, 1024);
}

constexpr size_t kAdamFloats = size_t{1} << 18;  // a level of 2^17 entries
constexpr size_t kCopyBytes = size_t{64} << 20;
constexpr int kLargeTable = 19;  // log2 of the entries

using Run = std::function<BenchWork()>;

// Calls `one` kCalls times.
Run Repeated(std::function<BenchWork()> one) {
  return [one]() -> BenchWork {
    BenchWork sum;
    for (int i = 0; i < kCalls; ++i) sum.Add(one());
    return sum;
  };
}

Vec3 RandomPoint(uint32_t use, uint32_t index) {
  const auto words = RandomWords(1, RandomUse::kTest, use, index);
  return {UniformFloat(words[0]), UniformFloat(words[1]), UniformFloat(words[2])};
}

Vec3 RandomDirection(uint32_t use, uint32_t index) {
  return Normalized(RandomPoint(use, index) - Vec3{0.5f, 0.5f, 0.5f});
}

// Values in [0, 1).
Buffer<float> RandomValues(size_t n) {
  Buffer<float> values(n);
  for (size_t i = 0; i < n; ++i) {
    values[i] =
        UniformFloat(RandomWords(2, RandomUse::kTest, 0, static_cast<uint32_t>(i / 4))[i % 4]);
  }
  return values;
}

// Samples on random rays through the unit cube, one marching step apart: the access pattern of
// training.
Buffer<Vec3> RaySamples() {
  constexpr float kStep = 1.7e-3f;
  Buffer<Vec3> samples(kSamples);
  for (int ray = 0; ray < kRays; ++ray) {
    const auto index = static_cast<uint32_t>(ray);
    const Vec3 origin = RandomPoint(0, index) * 0.9f + Vec3{0.05f, 0.05f, 0.05f};
    const Vec3 direction = RandomDirection(1, index);
    for (int i = 0; i < kSamplesPerRay; ++i) {
      samples[ray * kSamplesPerRay + i] = origin + direction * (kStep * static_cast<float>(i));
    }
  }
  return samples;
}

struct HashBench {
  explicit HashBench(int log2_entries) : shape(EncodingShape(log2_entries)) {}
  kernels::HashGridShape shape;
  Buffer<Vec3> samples = RaySamples();
  Buffer<float> table{shape.level_size() * shape.n_levels};  // gradients
  Buffer<Half> half_table{table.size()};                     // read by training and rendering
  Buffer<uint8_t> touched{table.size() / 16};
  Buffer<float> features{size_t{kEncodingWidth} * kSamples};
  // Entries read per sample, and bytes per entry.
  double n_entries = 8.0 * shape.n_levels, entry_bytes = 4.0 * shape.n_features;
};

Run PrepareEncodeForward(int log2_entries) {
  auto bench = std::make_shared<HashBench>(log2_entries);
  return [bench]() -> BenchWork {
    for (int i = 0; i < kSamples; i += kBatch) {
      kernels::cpu::HashEncodeForward(kernels::HashEncodeForwardParams<Half>{
          .shape = &bench->shape,
          .table = bench->half_table.data(),
          .n = kBatch,
          .positions = bench->samples.data() + i,
          .features = bench->features.data() + size_t{kEncodingWidth} * i,
          .stride = kEncodingWidth});
    }
    return {.items = kSamples,
            .bytes = kSamples * (bench->n_entries * bench->entry_bytes / 2 + 4 * kEncodingWidth),
            .gathers = kSamples * bench->n_entries};
  };
}

Run PrepareEncodeBackward(int log2_entries) {
  auto bench = std::make_shared<HashBench>(log2_entries);
  return [bench]() -> BenchWork {
    for (int level = 0; level < bench->shape.n_levels; ++level) {
      const size_t size = bench->shape.level_size();
      const int first_feature = bench->shape.n_features * level;
      kernels::cpu::HashEncodeBackward(
          {.shape = &bench->shape,
           .level = level,
           .n = kSamples,
           .positions = bench->samples.data(),
           .grad_features = bench->features.data() + kernels::kHashTile * first_feature,
           .tile_stride = kernels::kHashTile * kEncodingWidth,
           .grad_table = bench->table.data() + size * level,
           .touched = bench->touched.data() + size / 16 * level});
    }
    return {.items = kSamples,
            .bytes = kSamples * (bench->n_entries * 2 * bench->entry_bytes + 4 * kEncodingWidth),
            .gathers = kSamples * bench->n_entries};
  };
}

// A layer's weights packed into bf16 pairs, once, as in a training step; null in fp32.
struct WeightPairs {
  WeightPairs(int n_rows, int n_columns, const Buffer<float>& weights)
      : words((static_cast<size_t>(n_rows) / 2 + 16) * n_columns) {
    if (!kernels::cpu::UsesBf16Layers()) return;
    kernels::cpu::PackBf16Pairs(n_rows, n_columns, weights.data(), words.data());
    pairs = words.data();
  }
  Buffer<uint32_t> words;  // with rows of padding, which the unit may read
  const uint32_t* pairs = nullptr;
};

struct DenseBench {
  DenseBench(int n_in, int n_out) : n_in(n_in), n_out(n_out) {}
  int n_in, n_out;
  Buffer<float> inputs = RandomValues(static_cast<size_t>(n_in) * kBatch);
  Buffer<float> outputs{static_cast<size_t>(n_out) * kBatch};
  Buffer<float> weights = RandomValues(static_cast<size_t>(n_in) * n_out);
  WeightPairs forward_pairs{n_in, n_out, weights}, backward_pairs{n_out, n_in, weights};
};

// Work of a layer's pass over a batch. Only activations count as reads and writes: weights stay in
// the L1 cache.
template <typename Call>
Run PrepareDense(int n_in, int n_out, Call call) {
  auto bench = std::make_shared<DenseBench>(n_in, n_out);
  return Repeated([bench, call]() -> BenchWork {
    call(*bench);
    return {.items = kBatch,
            .bytes = 4.0 * kBatch * (bench->n_in + bench->n_out),
            .flops = 2.0 * kBatch * bench->n_in * bench->n_out};
  });
}

Run PrepareDenseForward(int n_in, int n_out) {
  return PrepareDense(n_in, n_out, [](DenseBench& b) {
    kernels::cpu::DenseForward({.n_rows = kBatch,
                                .n_in = b.n_in,
                                .n_out = b.n_out,
                                .inputs = b.inputs.data(),
                                .input_stride = b.n_in,
                                .weights = b.weights.data(),
                                .weight_pairs = b.forward_pairs.pairs,
                                .outputs = b.outputs.data(),
                                .output_stride = b.n_out,
                                .relu = true});
  });
}

Run PrepareDenseBackwardInput(int n_in, int n_out) {
  return PrepareDense(n_in, n_out, [](DenseBench& b) {
    kernels::cpu::DenseBackwardInput({.n_rows = kBatch,
                                      .n_in = b.n_in,
                                      .n_out = b.n_out,
                                      .grad_outputs = b.outputs.data(),
                                      .grad_output_stride = b.n_out,
                                      .weights = b.weights.data(),
                                      .weight_pairs = b.backward_pairs.pairs,
                                      .gate = b.inputs.data(),
                                      .gate_stride = b.n_in,
                                      .grad_inputs = b.inputs.data(),
                                      .grad_input_stride = b.n_in});
  });
}

Run PrepareDenseBackwardWeights(int n_in, int n_out) {
  return PrepareDense(n_in, n_out, [](DenseBench& b) {
    kernels::cpu::DenseBackwardWeights({kBatch, b.n_in, b.n_out, b.inputs.data(), b.n_in,
                                        b.outputs.data(), b.n_out, b.weights.data()});
  });
}

Run PrepareDensityActivation() {
  struct ActivationBench {
    Buffer<float> outputs = RandomValues(size_t{kGeometryWidth} * kBatch);
    Buffer<float> deltas = RandomValues(kBatch), sigmas{kBatch}, alphas{kBatch};
  };
  auto bench = std::make_shared<ActivationBench>();
  return Repeated([bench]() -> BenchWork {
    kernels::cpu::DensityActivation({.n = kBatch,
                                     .outputs = bench->outputs.data(),
                                     .stride = kGeometryWidth,
                                     .deltas = bench->deltas.data(),
                                     .sigmas = bench->sigmas.data(),
                                     .alphas = bench->alphas.data()});
    return {.items = kBatch, .bytes = kBatch * 16.0};
  });
}

Run PrepareSigmoid() {
  auto values = std::make_shared<Buffer<float>>(RandomValues(size_t{kColorWidth} * kBatch));
  return Repeated([values]() -> BenchWork {
    kernels::cpu::Sigmoid({.n = kColorWidth * kBatch, .values = values->data()});
    return {.items = kColorWidth * kBatch, .bytes = kColorWidth * kBatch * 8.0};
  });
}

struct CompositeBench {
  Buffer<Vec3> colors = RaySamples();
  Buffer<float> alphas = RandomValues(kSamples), weights{kSamples}, grad_sigmas{kSamples};
};

Run PrepareCompositeForward() {
  auto bench = std::make_shared<CompositeBench>();
  return Repeated([bench]() -> BenchWork {
    CompositeBench& b = *bench;
    for (int ray = 0; ray < kRays; ++ray) {
      float transmittance = 1;
      for (int i = ray * kSamplesPerRay; i < (ray + 1) * kSamplesPerRay; ++i) {
        b.weights[i] = kernels::CompositeForwardStep(b.alphas[i], &transmittance);
      }
    }
    return {.items = kSamples, .bytes = kSamples * 8.0};
  });
}

Run PrepareCompositeBackward() {
  auto bench = std::make_shared<CompositeBench>();
  return Repeated([bench]() -> BenchWork {
    CompositeBench& b = *bench;
    for (int ray = 0; ray < kRays; ++ray) {
      float transmittance = 1;
      float behind = 0.3f;
      for (int i = ray * kSamplesPerRay; i < (ray + 1) * kSamplesPerRay; ++i) {
        b.grad_sigmas[i] =
            kernels::CompositeBackwardStep(Dot({0.1f, 0.2f, 0.3f}, b.colors[i]), b.alphas[i],
                                           b.weights[i], 1e-3f, &transmittance, &behind);
      }
    }
    return {.items = kSamples, .bytes = kSamples * 24.0};
  });
}

Run PrepareSphericalHarmonics() {
  struct HarmonicsBench {
    Buffer<Vec3> directions{kRays};
    Buffer<float> harmonics{size_t{kDirectionWidth} * kRays};
  };
  auto bench = std::make_shared<HarmonicsBench>();
  for (uint32_t ray = 0; ray < kRays; ++ray) bench->directions[ray] = RandomDirection(1, ray);
  return Repeated([bench]() -> BenchWork {
    for (size_t ray = 0; ray < kRays; ++ray) {
      kernels::SphericalHarmonics4(bench->directions[ray],
                                   bench->harmonics.data() + kDirectionWidth * ray);
    }
    return {.items = kRays, .bytes = kRays * (12.0 + 4 * kDirectionWidth)};
  });
}

// Rays toward a grid whose occupied cells form a thick shell, like the surfaces of a trained scene:
// the march skips empty blocks and samples occupied cells.
struct MarchBench {
  static constexpr float kInner = 0.5f, kOuter = 0.55f;  // radii of the shell
  OccupancyGrid grid = FullOccupancyGrid({{-1, -1, -1}, {1, 1, 1}}, 1, 128);
  std::vector<uint8_t> empty_distances;
  kernels::MarchSteps steps{3.4641f / 512, 0};
  std::vector<Ray> rays;

  MarchBench() {
    std::fill(grid.occupied_blocks.begin(), grid.occupied_blocks.end(), 0);
    const int side = grid.resolution / 4;
    for (int z = 0; z < grid.resolution; ++z) {
      for (int y = 0; y < grid.resolution; ++y) {
        for (int x = 0; x < grid.resolution; ++x) {
          const auto at = [](int cell) { return (static_cast<float>(cell) + 0.5f) / 64 - 1; };
          const float radius = Norm(Vec3{at(x), at(y), at(z)});
          if (radius < kInner || radius > kOuter) continue;
          const int block = (z / 4 * side + y / 4) * side + x / 4;
          grid.occupied_blocks[static_cast<size_t>(block)] |=
              uint64_t{1} << (x % 4 + 4 * (y % 4) + 16 * (z % 4));
        }
      }
    }
    empty_distances = EmptyDistances(grid);
    for (uint32_t ray = 0; ray < kRays; ++ray) {
      const Vec3 origin = RandomDirection(2, ray) * 3;
      const Vec3 to = RandomPoint(3, ray) * 1.2f - Vec3{0.6f, 0.6f, 0.6f};
      rays.push_back({origin, Normalized(to - origin)});
    }
  }
};

// Marches as a training step does, repeatedly.
Run PrepareMarch() {
  auto bench = std::make_shared<MarchBench>();
  return [bench]() -> BenchWork {
    constexpr size_t kGroup = kRaysInFlight;
    const kernels::MarchGrid grid = MarchGridOf(bench->grid, bench->empty_distances);
    kernels::MarchRay marches[kGroup];
    RayWave wave;
    int64_t n_samples = 0;
    for (size_t begin = 0; begin < bench->rays.size(); begin += kGroup) {
      wave.active.clear();
      for (size_t i = 0; i < std::min(kGroup, bench->rays.size() - begin); ++i) {
        marches[i] = kernels::StartMarch(grid, bench->steps, bench->rays[begin + i], 0.5f);
        wave.active.push_back(static_cast<int>(i));
      }
      while (!wave.active.empty()) {
        wave.March(grid, bench->steps, kSamplesAhead, marches);
        size_t n_active = 0;
        for (size_t i = 0; i < wave.active.size(); ++i) {
          n_samples += wave.n_found[i];
          if (wave.n_found[i] == kSamplesAhead) wave.active[n_active++] = wave.active[i];
        }
        wave.active.resize(n_active);
      }
    }
    return {.items = static_cast<double>(n_samples)};
  };
}

struct AdamBench {
  Buffer<float> parameters{kAdamFloats}, first{kAdamFloats}, second{kAdamFloats},
      gradients{kAdamFloats};
  Buffer<uint32_t> moments{kAdamFloats};
  Buffer<Half> halves{kAdamFloats};
  Buffer<uint8_t> touched{kAdamFloats / 16};
};

// Adam over a whole table with the default layout of moments and copies. The op resets gradients,
// so each run fills them again within the measured time, as the scatter of a step does.
Run PrepareAdamSparse() {
  auto bench = std::make_shared<AdamBench>();
  return [bench]() -> BenchWork {
    std::fill(bench->touched.begin(), bench->touched.end(), 1);
    std::fill(bench->gradients.begin(), bench->gradients.end(), 1e-3f);
    kernels::cpu::AdamSparse({.settings = {.learning_rate = 1e-2f},
                              .n_lines = kAdamFloats / 16,
                              .touched = bench->touched.data(),
                              .parameters = bench->parameters.data(),
                              .moment_pairs = bench->moments.data(),
                              .gradients = bench->gradients.data(),
                              .half_copies = bench->halves.data()});
    return {.items = kAdamFloats, .bytes = kAdamFloats * (4.0 * 7 + 2)};
  };
}

Run PrepareAdamDense() {
  auto bench = std::make_shared<AdamBench>();
  std::fill(bench->gradients.begin(), bench->gradients.end(), 1e-3f);
  return [bench]() -> BenchWork {
    kernels::cpu::AdamDense({.settings = {.learning_rate = 1e-2f},
                             .n = kAdamFloats,
                             .parameters = bench->parameters.data(),
                             .first_moments = bench->first.data(),
                             .second_moments = bench->second.data(),
                             .gradients = bench->gradients.data()});
    return {.items = kAdamFloats, .bytes = kAdamFloats * 4.0 * 7};
  };
}

Run PrepareMovingAverage() {
  auto bench = std::make_shared<AdamBench>();
  return [bench]() -> BenchWork {
    kernels::cpu::MovingAverage({.decay = 0.95f,
                                 .n = kAdamFloats,
                                 .parameters = bench->parameters.data(),
                                 .averages = bench->first.data()});
    return {.items = kAdamFloats, .bytes = kAdamFloats * 4.0 * 3, .flops = kAdamFloats * 3.0};
  };
}

Run PrepareCopy() {
  struct CopyBench {
    Buffer<uint8_t> from{kCopyBytes}, to{kCopyBytes};
  };
  auto bench = std::make_shared<CopyBench>();
  std::memset(bench->from.data(), 1, kCopyBytes);  // allocates the pages
  return [bench]() -> BenchWork {
    std::memcpy(bench->to.data(), bench->from.data(), kCopyBytes);
    return {.items = kCopyBytes, .bytes = 2.0 * kCopyBytes};
  };
}

// Both directions of the encoding. The forward pass gathers from the tables of all levels, the
// backward pass adds to one table at a time.
void AddEncodeBenches(int log2_entries, const std::string& suffix, std::vector<Bench>* benches) {
  benches->push_back(OnEveryThread("hash_encode_forward" + suffix, "samples",
                                   [log2_entries] { return PrepareEncodeForward(log2_entries); }));
  benches->push_back(OnEveryThread("hash_encode_backward" + suffix, "samples",
                                   [log2_entries] { return PrepareEncodeBackward(log2_entries); }));
}

template <typename Prepare>
Bench DenseBenchOf(const char* pass, int n_in, int n_out, Prepare prepare) {
  return OnEveryThread(fmt::format("dense_{}_{}x{}", pass, n_in, n_out), "samples",
                       [=] { return prepare(n_in, n_out); });
}

}  // namespace

Bench OnEveryThread(std::string name, std::string item, std::function<Run()> prepare) {
  const auto prepare_copies = [prepare](ThreadPool* pool) -> Run {
    std::vector<Run> copies;
    for (int i = 0; i < pool->n_threads(); ++i) copies.push_back(prepare());
    return [copies, pool]() -> BenchWork {
      std::vector<BenchWork> done(copies.size());
      pool->ParallelFor(static_cast<int64_t>(copies.size()), [&](int64_t i, int) {
        done[static_cast<size_t>(i)] = copies[static_cast<size_t>(i)]();
      });
      BenchWork sum;
      for (const BenchWork& work : done) sum.Add(work);
      return sum;
    };
  };
  return {std::move(name), std::move(item), prepare_copies};
}

std::vector<Bench> OpBenches() {
  std::vector<Bench> benches = {OnEveryThread("copy", "bytes copied", PrepareCopy)};
  AddEncodeBenches(kTable, "", &benches);
  AddEncodeBenches(kLargeTable, fmt::format("_2^{}", kLargeTable), &benches);
  for (const auto& [n_in, n_out] :
       {std::pair(kEncodingWidth, kHiddenWidth), std::pair(kHiddenWidth, kHiddenWidth),
        std::pair(kHiddenWidth, kGeometryWidth)}) {
    benches.push_back(DenseBenchOf("forward", n_in, n_out, PrepareDenseForward));
    benches.push_back(DenseBenchOf("backward_input", n_in, n_out, PrepareDenseBackwardInput));
    benches.push_back(DenseBenchOf("backward_weights", n_in, n_out, PrepareDenseBackwardWeights));
  }
  benches.push_back(OnEveryThread("density_activation", "samples", PrepareDensityActivation));
  benches.push_back(OnEveryThread("sigmoid", "values", PrepareSigmoid));
  benches.push_back(OnEveryThread("spherical_harmonics", "directions", PrepareSphericalHarmonics));
  benches.push_back(OnEveryThread("march_samples", "marched samples", PrepareMarch));
  benches.push_back(OnEveryThread("composite_forward", "samples", PrepareCompositeForward));
  benches.push_back(OnEveryThread("composite_backward", "samples", PrepareCompositeBackward));
  benches.push_back(OnEveryThread("adam_sparse", "parameters", PrepareAdamSparse));
  benches.push_back(OnEveryThread("adam_dense", "parameters", PrepareAdamDense));
  benches.push_back(OnEveryThread("moving_average", "parameters", PrepareMovingAverage));
  return benches;
}

}  // namespace nerf
