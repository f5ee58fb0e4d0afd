#pragma once

#include <vector>

#include "engine/program/bench/bench_registry.h"

namespace nerf {

// Makes a bench of a single-threaded op: each thread of the pool runs its own copy at the same
// time. prepare is called once per thread.
Bench OnEveryThread(std::string name, std::string item,
                    std::function<std::function<BenchWork()>()> prepare);

// One bench for each op of engine/field/kernels at the sizes of the training step, and one that
// copies memory, for comparison.
std::vector<Bench> OpBenches();

}  // namespace nerf
