#include <regex.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "common/clock.h"
#include "common/counted.h"
#include "engine/base/protocol/json.h"
#include "engine/program/bench/bench_registry.h"
#include "engine/program/console/command.h"
#include "engine/program/device/exception_border.h"
#include "engine/program/device/machine.h"
#include "fmt/format.h"

namespace nerf {
namespace {

struct BenchFlags {
  std::string filter = ".";
  int threads = 0;
  double seconds = 1;  // for each bench
  bool json = false;
};

struct BenchFigures {
  int64_t n_runs = 0;
  double seconds = 0;
  BenchWork work;
};

BenchFigures Measure(const Bench& bench, double seconds, ThreadPool* pool) {
  const RealClock clock;
  const auto run = bench.prepare(pool);
  run();  // warms caches
  BenchFigures figures;
  const SteadyTime begin = clock.Now();
  do {
    figures.work.Add(run());
    ++figures.n_runs;
    figures.seconds = absl::ToDoubleSeconds(clock.Now() - begin);
  } while (figures.seconds < seconds);
  return figures;
}

void Print(const Bench& bench, const BenchFigures& figures, bool json) {
  const double items_per_second = figures.work.items / figures.seconds;
  const double bytes_per_second = figures.work.bytes / figures.seconds;
  const double flops_per_second = figures.work.flops / figures.seconds;
  if (!json) {
    fmt::print("{:<30} {:10.3f} ms  {:10.3f} M {}/s", bench.name,
               1e3 * figures.seconds / static_cast<double>(figures.n_runs), items_per_second / 1e6,
               bench.item);
    if (bytes_per_second > 0) fmt::print("  {:8.2f} GB/s", bytes_per_second / 1e9);
    if (flops_per_second > 0) fmt::print("  {:8.2f} GFLOP/s", flops_per_second / 1e9);
    fmt::print("\n");
  } else {
    JsonObject line;
    line["event"] = "bench";
    line["name"] = bench.name;
    line["item"] = bench.item;
    line["runs"] = figures.n_runs;
    line["seconds_per_run"] = JsonNumber(figures.seconds / static_cast<double>(figures.n_runs));
    line["items_per_second"] = JsonNumber(items_per_second);
    line["bytes_per_second"] = JsonNumber(bytes_per_second);
    line["flops_per_second"] = JsonNumber(flops_per_second);
    fmt::print("{}", JsonLine(line));
  }
  std::fflush(stdout);
}

int RunBench(const BenchFlags& flags) {
  regex_t filter;
  if (regcomp(&filter, flags.filter.c_str(), REG_EXTENDED | REG_NOSUB) != 0) {
    return ReportError(absl::InvalidArgumentError(fmt::format(
                           "--filter {}: not a regular expression", flags.filter.substr(0, 64))),
                       flags.json, true);
  }
  ThreadPool pool(ThreadsFor(flags.threads));
  if (!flags.json) fmt::print("{}, {}\n", DeviceDescription(), Counted(pool.n_threads(), "thread"));
  int n_run = 0;
  const absl::Status status = Guarded([&] {
    for (const Bench& bench : AllBenches()) {
      if (regexec(&filter, bench.name.c_str(), 0, nullptr, 0) != 0) continue;
      Print(bench, Measure(bench, flags.seconds, &pool), flags.json);
      ++n_run;
    }
    return absl::OkStatus();
  });
  regfree(&filter);
  if (!status.ok()) return ReportError(status, flags.json);
  if (flags.json) {
    JsonObject line;
    line["event"] = "done";
    line["benches"] = n_run;
    line["device"] = DeviceDescription();
    line["threads"] = pool.n_threads();
    fmt::print("{}", JsonLine(line));
  }
  return kOk;
}

}  // namespace

void AddBenchCommand(CLI::App* app, CommandBody* chosen) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* command = app->add_subcommand("bench", "Measure ops and a whole training step");
  command->add_option("--filter", flags->filter, "regular expression for names");
  command->add_option("--threads", flags->threads, "threads (default: one for each core)")
      ->check(CLI::Range(0, 1024));
  AddTimeOption(command, "--seconds", "for each bench", &flags->seconds)->default_str("1");
  command->add_flag("--json", flags->json, "one JSON object a line on stdout");
  command->footer("Example:\n  nerf-engine bench --filter '^hash_' --seconds 0.2 --threads 1");
  command->callback([=] { *chosen = [flags] { return RunBench(*flags); }; });
}

}  // namespace nerf
