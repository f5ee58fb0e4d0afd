#pragma once

#include <vector>

#include "engine/tool/bench_registry.h"

namespace nerf {

// Makes a bench of an op, which runs on one core: each thread of the pool runs a copy of its own,
// all at once. prepare is called once for each.
Bench OnEveryThread(std::string name, std::string item,
                    std::function<std::function<BenchWork()>()> prepare, int log2_gathered = 0);

// One bench for each op of engine/kernels at the sizes of the training step, and the machine's own
// rate of copying beside them.
std::vector<Bench> OpBenches();

}  // namespace nerf
