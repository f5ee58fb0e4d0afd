#pragma once

#include <functional>
#include <string>

#include "engine/base/parallel_for.h"

namespace nerf {

// What one run of a bench did.
struct BenchWork {
  double items = 0;    // of Bench::item
  double bytes = 0;    // read and written; 0 where it says nothing
  double flops = 0;    // additions and multiplications; 0 where it says nothing
  double gathers = 0;  // entries read at random from tables; 0 where there are none

  void Add(const BenchWork& other) {
    items += other.items;
    bytes += other.bytes;
    flops += other.flops;
    gathers += other.gathers;
  }
};

// Something to measure: an op, or a whole training step.
struct Bench {
  std::string name;  // "hash_encode_forward"
  std::string item;  // what is counted: "samples"
  // Sets up once and returns what is timed; each call does the same work.
  std::function<std::function<BenchWork()>(ThreadPool* pool)> prepare;
};

}  // namespace nerf
