// The CUDA kernels at the sizes of a large training step, a whole step and the device's ceilings,
// as a Markdown table: how long a call takes, what it does a second, and what share that is of the
// ceilings, which are measured first. Calls follow one another without a pause, and the clock is
// that on the wall; of the step, whose counts the host reads, one at a time.
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/clock.h"
#include "engine/base/buffer.h"
#include "engine/base/philox.h"
#include "engine/config/train_config.h"
#include "engine/field/ngp_network.h"
#include "engine/kernels/adam.h"
#include "engine/kernels/cuda/device.h"
#include "engine/kernels/hash_encoding.h"
#include "engine/kernels/ngp_mlp.h"
#include "engine/kernels/spherical_harmonics.h"
#include "engine/tool/bench_registry.h"
#include "engine/tool/engine_runner.h"
#include "engine/tool/synthetic_scene.h"
#include "engine/train/ngp.h"
#include "engine/train/ray_count_controller.h"
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

// Short stretches of random rays through the unit cube, a marching step apart.
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

// Everything that the ops of one step read and write, in half precision.
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
        grads(OnDevice(std::vector<float>(4 * size_t{n}, 0.1f), stream)),
        grad_encodings(Zeros<float>(size_t{kEncodingWidth} * n)),
        weight_gradients(Zeros<float>(size_t{kNgpWeights} * cuda::NgpBackwardBlocks<Half>())),
        grad_table(Zeros<float>(table.size())),
        parameters(Zeros<float>(table.size())),
        first(Zeros<float>(table.size())),
        second(Zeros<float>(table.size())),
        rays(OnDevice(std::vector<Ray>(n / kSamplesPerRay, Ray{{}, {0, 0, 1}}), stream)),
        colours(Zeros<Vec3>(n)),
        settings(OnDevice(std::vector<cuda::AdamStepSettings>(1), stream)),
        skip(Zeros<uint32_t>(1)) {}

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
  Buffer<float> deltas, sigmas, alphas, grads, grad_encodings, weight_gradients, grad_table;
  Buffer<float> parameters, first, second;
  Buffer<Ray> rays;
  Buffer<Vec3> colours;
  Buffer<cuda::AdamStepSettings> settings;
  Buffer<uint32_t> skip;
};

// A thing to time: puts its work into the stream and says how much that is.
struct CudaBench {
  std::string name, item;
  std::function<BenchWork()> run;
};

std::vector<CudaBench> Ops(std::shared_ptr<StepArrays> a, kernels::Stream stream) {
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
      {"spherical_harmonics", "rays",
       [=]() -> BenchWork {
         cuda::SphericalHarmonics(
             cuda::SphericalHarmonicsParams<Half>{.range = {a->n / kSamplesPerRay},
                                                  .rays = a->rays.data(),
                                                  .harmonics = a->harmonics.data()},
             stream);
         return {.items = n / kSamplesPerRay, .bytes = n / kSamplesPerRay * 64};
       }},
      {"ngp_colour", "samples",
       [=]() -> BenchWork {
         cuda::NgpColour(cuda::NgpColourParams<Half>{.range = all,
                                                     .weights = a->weights.data(),
                                                     .rows = a->rows.data(),
                                                     .ray_of = a->ray_of.data(),
                                                     .harmonics = a->harmonics.data(),
                                                     .geometry = a->geometry.data(),
                                                     .colours = a->colours.data()},
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
         return {.items = size, .bytes = 4 * size};  // gradients are zero but the first time
       }},
  };
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

// A whole step of about so many trained samples on a small scene, past the first hundred steps.
CudaBench Step(uint32_t n_samples) {
  struct Training {
    Scene scene = SyntheticBallScene(16, 0, 256);
    TrainConfig config;
    std::unique_ptr<TrainingStep> step;
    std::unique_ptr<RayCountController> ray_count;
    Batch batch;
  };
  const auto training = std::make_shared<Training>();
  Training& t = *training;
  t.config.target_samples = static_cast<int>(n_samples);
  t.config.max_rays = std::max(t.config.max_rays, t.config.target_samples);
  const RaySource source{t.scene.train, Background::kRandom, t.scene.geometry.near};
  t.step = NewCudaHashGridStep(t.config, t.scene.geometry, &source);
  t.ray_count = std::make_unique<RayCountController>(
      RayCountOptions{t.config.target_samples, t.config.initial_rays, t.config.max_rays});
  auto run = [training]() -> BenchWork {
    Training& now = *training;
    now.batch.n_rays = now.ray_count->n_rays();
    now.batch.learning_rate = now.config.learning_rate;
    const StepResult result = now.step->Run(now.batch);
    ++now.batch.step;
    now.ray_count->Update(result);
    return {.items = static_cast<double>(result.n_trained)};
  };
  constexpr int kStepsBefore = 100;
  for (int i = 0; i < kStepsBefore; ++i) run();
  return {"training_step", "trained samples", run};
}

struct Figures {
  double seconds_per_call = 0;
  BenchWork per_second;
};

Figures Measure(const CudaBench& bench, double seconds, kernels::Stream stream) {
  constexpr int kCallsAtOnce = 10;
  const RealClock clock;
  bench.run();
  cuda::Synchronize(stream);
  BenchWork work;
  int n_calls = 0;
  double spent = 0;
  const SteadyTime begin = clock.Now();
  do {
    for (int i = 0; i < kCallsAtOnce; ++i) work.Add(bench.run());
    cuda::Synchronize(stream);
    n_calls += kCallsAtOnce;
    spent = absl::ToDoubleSeconds(clock.Now() - begin);
  } while (spent < seconds);
  return {spent / n_calls,
          {work.items / spent, work.bytes / spent, work.flops / spent, work.gathers / spent}};
}

absl::Status Run(const Arguments& arguments) {
  if (absl::Status status = CheckDevice("cuda:0"); !status.ok()) return status;
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

int main(int argc, char** argv) {
  nerf::Arguments arguments;
  bool smallest = false;
  CLI::App app("Measures the CUDA kernels beside the device's ceilings");
  app.add_option("--seconds", arguments.seconds, "for each")->capture_default_str();
  app.add_flag("--smallest", smallest,
               "every op once on next to nothing: shows that it runs, measures nothing");
  CLI11_PARSE(app, argc, argv);
  if (smallest) arguments = {0, 6, 8, 12, false};
  const absl::Status status = nerf::Guarded([&] { return nerf::Run(arguments); });
  if (status.ok()) return 0;
  fmt::print(stderr, "cuda_bench: {}\n", status.ToString());
  return 1;
}
