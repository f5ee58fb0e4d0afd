#include "engine/program/bench/bench_registry.h"

#include <memory>
#include <utility>

#include "engine/methods/registry.h"
#include "engine/program/bench/ceilings.h"
#include "engine/program/bench/op_benches.h"
#include "engine/program/bench/synthetic_scene.h"
#include "engine/train/batch/pixel_sampler.h"

namespace nerf {
namespace {

std::function<BenchWork()> PrepareSamplePixels(ThreadPool* pool) {
  struct Sampling {
    Scene scene = SyntheticBallScene(16, 0, 128);
    PixelSampler sampler{scene.train, Background::kRandom, 1};
    PixelBatch batch;
    uint32_t n_steps = 0;
  };
  auto sampling = std::make_shared<Sampling>();
  return [sampling, pool]() -> BenchWork {
    constexpr int kPixels = 1 << 14;
    sampling->sampler.Fill(sampling->n_steps++, kPixels, pool, &sampling->batch);
    return {.items = kPixels};
  };
}

}  // namespace

std::vector<Bench> AllBenches() {
  std::vector<Bench> benches = CeilingBenches();
  for (Bench& bench : OpBenches()) benches.push_back(std::move(bench));
  benches.push_back({"sample_pixels", "pixels", PrepareSamplePixels});
  static const Scene& scene = *new Scene(SyntheticBallScene(16, 0, 128));
  for (const Method* method : Methods()) {
    for (Bench& bench : method->Benches(scene)) benches.push_back(std::move(bench));
  }
  return benches;
}

}  // namespace nerf
