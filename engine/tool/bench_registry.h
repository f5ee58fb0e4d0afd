#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/base/parallel_for.h"

namespace nerf {

// What one run of a bench did.
struct BenchWork {
  double items = 0;    // of Bench::item
  double bytes = 0;    // read and written; 0 if not meaningful
  double flops = 0;    // additions and multiplications; 0 if not meaningful
  double gathers = 0;  // entries read at random from tables

  void Add(const BenchWork& other);
};

// A thing to measure: an op, or a whole training step.
struct Bench {
  std::string name;  // "hash_encoding_forward"
  std::string item;  // what is counted: "samples"
  // Sets up once and returns the function to time; each of its calls does the same work.
  std::function<std::function<BenchWork()>(ThreadPool* pool)> prepare;
  int log2_gathered = 0;  // size of the memory that is gathered from, in 8-byte words
};

// Every bench of the program, in the order in which it is printed. Ops are added where this is
// defined, in bench_registry.cc.
std::vector<Bench> AllBenches();

}  // namespace nerf
