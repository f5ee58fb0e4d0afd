// Measures what drawing batches ahead gains if a device computes the step. The device is simulated:
// a step sleeps for a given time. With S for drawing a batch and C for a step, a sequential loop
// takes S + C per step and a pipelined one at best max(S, C). If the processor computes the steps
// itself on all cores, nothing is gained.
#include <algorithm>
#include <chrono>
#include <thread>

#include "benchmark/benchmark.h"
#include "engine/batch/sampler_ring.h"
#include "engine/bench/synthetic_scene.h"

namespace nerf {
namespace {

constexpr int kPixels = 65536;
constexpr int kBatchesAhead = 2;
constexpr int kUnpipelinedSteps = 50;

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void BM_PipelinedInput(benchmark::State& state) {
  const auto device_time = std::chrono::microseconds(state.range(0));
  const Scene scene = SyntheticBallScene(16, 0, 128);
  const PixelSampler sampler(scene.train, Background::kRandom, 1);
  ThreadPool pool(1);
  PixelBatch batch;
  const auto run_on_device = [&] { std::this_thread::sleep_for(device_time); };
  sampler.Fill(0, kPixels, &pool, &batch);  // allocates

  double drawing = 0;
  const auto begin = Clock::now();
  for (uint32_t step = 0; step < kUnpipelinedSteps; ++step) {
    const auto before = Clock::now();
    sampler.Fill(step, kPixels, &pool, &batch);
    drawing += SecondsSince(before);
    run_on_device();
  }
  const double unpipelined = SecondsSince(begin) / kUnpipelinedSteps;
  const double s = drawing / kUnpipelinedSteps, c = unpipelined - s;  // with the sleep's overshoot

  SamplerRing ring(&sampler, kBatchesAhead, 0, kPixels, {0, kPixels});
  uint32_t step = 0;
  double stalled = 0;
  const auto pipelined_begin = Clock::now();
  for (auto _ : state) {
    const auto before = Clock::now();
    ring.Take(step++, kPixels, {0, kPixels}, &pool, &batch);
    stalled += SecondsSince(before);
    run_on_device();
  }
  const double pipelined_total = SecondsSince(pipelined_begin);
  state.counters["S_ms"] = 1e3 * s;
  state.counters["C_ms"] = 1e3 * c;
  state.counters["unpipelined_ms"] = 1e3 * unpipelined;
  state.counters["ratio"] = unpipelined * step / pipelined_total;
  state.counters["bound"] = (s + c) / std::max(s, c);
  state.counters["stall_fraction"] = stalled / pipelined_total;
}

BENCHMARK(BM_PipelinedInput)
    ->ArgName("device_us")
    ->Arg(2000)
    ->Arg(8000)
    ->Arg(16000)
    ->Arg(32000)
    ->Iterations(150)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace nerf
