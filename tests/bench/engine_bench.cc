// Runs every bench of `nerf-engine bench`, and this machine's ceilings, under Google Benchmark on
// one thread and on all: items, bytes, FLOP and gathers per second, and their fractions of the
// ceilings, which are measured first.
#include <time.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "benchmark/benchmark.h"
#include "engine/bench/bench_registry.h"
#include "engine/training/machine.h"
#include "fmt/format.h"
#include "tests/bench/ceilings.h"

namespace nerf {
namespace {

constexpr double kCeilingSeconds = 0.3;

// Ceilings for a number of threads, per second.
struct Ceilings {
  double bytes = 0, flops = 0;
  std::map<int, double> gathers;  // by log2 of the entries
};

const Bench& Named(const std::vector<Bench>& benches, std::string_view name) {
  return *std::find_if(benches.begin(), benches.end(),
                       [&](const Bench& bench) { return bench.name == name; });
}

// The time that rates are based on: CPU time for one thread, so that other users of the machine do
// not count, else wall-clock time.
class Timer {
 public:
  explicit Timer(const ThreadPool& pool)
      : clock_(pool.n_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC), begin_(Now()) {}
  double Seconds() const { return Now() - begin_; }

 private:
  double Now() const {
    timespec now = {};
    clock_gettime(clock_, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  }

  const clockid_t clock_;
  const double begin_;
};

// Work per second.
BenchWork Rate(const Bench& bench, ThreadPool* pool) {
  const auto run = bench.prepare(pool);
  run();  // warms caches
  BenchWork work;
  const Timer timer(*pool);
  double seconds = 0;
  while (seconds < kCeilingSeconds) {
    work.Add(run());
    seconds = timer.Seconds();
  }
  return {work.items / seconds, work.bytes / seconds, work.flops / seconds, work.gathers / seconds};
}

Ceilings MeasureCeilings(const std::vector<Bench>& benches, ThreadPool* pool) {
  Ceilings ceilings;
  ceilings.bytes = Rate(Named(benches, "copy"), pool).bytes;
  ceilings.flops = Rate(Named(benches, "ceiling_fma"), pool).flops;
  for (const Bench& bench : benches) {
    if (bench.name.starts_with("ceiling_gather")) {
      ceilings.gathers[bench.log2_gathered] = Rate(bench, pool).gathers;
    }
  }
  return ceilings;
}

std::string Text(const Ceilings& ceilings) {
  std::string text = fmt::format("copy {:.1f} GB/s, fp32 FMA {:.1f} GFLOP/s, gather",
                                 ceilings.bytes / 1e9, ceilings.flops / 1e9);
  for (const auto& [log2_entries, rate] : ceilings.gathers) {
    text += fmt::format(" 2^{} {:.0f} M/s", log2_entries, rate / 1e6);
  }
  return text;
}

// Google Benchmark calls a bench several times to choose the number of runs. The prepared inputs of
// one bench at a time are kept between calls.
class PreparedBench {
 public:
  const std::function<BenchWork()>& Get(const Bench& bench, ThreadPool* pool) {
    const std::string key = fmt::format("{} {}", bench.name, pool->n_threads());
    if (key != key_) {
      run_ = nullptr;
      run_ = bench.prepare(pool);
      run_();  // warms caches
      key_ = key;
    }
    return run_;
  }

 private:
  std::string key_;
  std::function<BenchWork()> run_;
};

void Measure(const Bench& bench, const Ceilings& ceilings, const std::function<BenchWork()>& run,
             const ThreadPool& pool, benchmark::State* state) {
  BenchWork work;
  const Timer timer(pool);
  for (auto _ : *state) work.Add(run());
  const double seconds = timer.Seconds();
  const auto report = [&](const std::string& name, double done, double ceiling) {
    if (done <= 0) return;
    state->counters[name] = done / seconds;
    if (ceiling > 0) state->counters["of_ceiling_" + name] = done / seconds / ceiling;
  };
  report("items/s", work.items, 0);
  report("bytes/s", work.bytes, ceilings.bytes);
  report("FLOP/s", work.flops, ceilings.flops);
  const auto gathers = ceilings.gathers.find(bench.log2_gathered);
  report("gathers/s", work.gathers, gathers != ceilings.gathers.end() ? gathers->second : 0);
  state->SetLabel(bench.item);
}

void RegisterBenches(const std::vector<std::unique_ptr<ThreadPool>>& pools) {
  auto benches = std::make_shared<std::vector<Bench>>(CeilingBenches());
  for (Bench& bench : AllBenches()) benches->push_back(std::move(bench));
  auto prepared = std::make_shared<PreparedBench>();
  for (const auto& owned : pools) {
    ThreadPool* pool = owned.get();
    const Ceilings ceilings = MeasureCeilings(*benches, pool);
    benchmark::AddCustomContext(fmt::format("ceilings, {} threads", pool->n_threads()),
                                Text(ceilings));
    for (const Bench& bench : *benches) {
      auto* registered = benchmark::RegisterBenchmark(
          fmt::format("{}/threads:{}", bench.name, pool->n_threads()).c_str(),
          [benches, &bench, ceilings, prepared, pool](benchmark::State& state) {
            Measure(bench, ceilings, prepared->Get(bench, pool), *pool, &state);
          });
      registered->Unit(benchmark::kMillisecond);
      if (pool->n_threads() > 1) registered->UseRealTime();
    }
  }
}

}  // namespace
}  // namespace nerf

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  if (absl::Status status = nerf::TakeSimdPathOfEnvironment(); !status.ok()) {
    fmt::print(stderr, "engine_bench: {}\n", std::string(status.message()));
    return 1;
  }
  // Must outlive the last bench.
  std::vector<std::unique_ptr<nerf::ThreadPool>> pools;
  pools.push_back(std::make_unique<nerf::ThreadPool>(1));
  auto all_cores = std::make_unique<nerf::ThreadPool>();
  if (all_cores->n_threads() > 1) pools.push_back(std::move(all_cores));
  benchmark::AddCustomContext("device", nerf::DeviceDescription());
  nerf::RegisterBenches(pools);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::ClearRegisteredBenchmarks();
  return 0;
}
