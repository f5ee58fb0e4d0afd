#include "engine/program/bench/ceilings.h"

#include <memory>

#include "engine/base/buffer.h"
#include "engine/program/bench/op_benches.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr int64_t kFmaRounds = 1 << 20;
constexpr uint32_t kGathers = 1 << 18;  // per run

std::function<BenchWork()> PrepareFma() {
  auto sink = std::make_shared<float>(0);
  return [sink]() -> BenchWork {
    const double flops = ceilings::FmaLoop(kFmaRounds, sink.get());
    return {.items = flops / 2, .flops = flops};
  };
}

// Indices are a hash of a counter, so that only the table is read and many loads are in flight.
std::function<BenchWork()> PrepareGather(int log2_entries) {
  struct GatherBench {
    explicit GatherBench(int log2_entries) : table(size_t{1} << log2_entries) {
      for (size_t i = 0; i < table.size(); ++i) table[i] = i;
    }
    Buffer<uint64_t> table;
    uint64_t sum = 0;  // keeps the loads alive
    uint32_t counter = 0;
  };
  auto bench = std::make_shared<GatherBench>(log2_entries);
  return [bench]() -> BenchWork {
    const uint64_t* table = bench->table.data();
    const auto mask = static_cast<uint32_t>(bench->table.size() - 1);
    uint64_t sum = 0;
    const uint32_t begin = bench->counter;
    for (uint32_t i = begin; i != begin + kGathers; ++i) {
      uint32_t place = i * 0x9E3779B9u;
      place = (place ^ (place >> 15)) * 0x85EBCA6Bu;
      sum += table[(place ^ (place >> 13)) & mask];
    }
    bench->sum += sum;
    bench->counter += kGathers;
    return {.items = kGathers, .bytes = kGathers * 8.0, .gathers = kGathers};
  };
}

}  // namespace

std::vector<Bench> CeilingBenches() {
  std::vector<Bench> benches = {OnEveryThread("ceiling_fma", "multiply-adds", PrepareFma)};
  for (const int log2_entries : {18, 20, 22}) {
    benches.push_back(OnEveryThread(fmt::format("ceiling_gather_2^{}", log2_entries), "reads",
                                    [log2_entries] { return PrepareGather(log2_entries); }));
  }
  return benches;
}

}  // namespace nerf
