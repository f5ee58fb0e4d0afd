#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>

#include "tests/testing/cuda_emulation/call_site.h"

// Runs CUDA kernels that were compiled as C++, for tests on machines without a device. Blocks run
// one after another; the threads of a block are fibers that take turns at barriers and warp
// operations. It is about being right, not about speed: threads run in a fixed order, each as far
// as it can, which is the order in which a missing barrier shows.
namespace nerf::cuda_emulation {

// Threads wait for one another in a way that cannot end: some ended or took another branch. Names
// the kernel, the block, and who waits where.
class DivergenceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// In which order blocks, and threads within a block, get their first turn. A result that depends on
// it is a race.
enum class ThreadOrder { kRising, kFalling };
void SetThreadOrder(ThreadOrder order);

struct GridShape {
  unsigned n_blocks = 1, n_threads = 1;
  size_t shared_bytes = 0;
};

// Calls body once for each thread of each block. Shared memory is filled with NaN before each
// block, static variables of templates excepted. Throws DivergenceError.
void RunGrid(const char* name, const GridShape& shape, const std::function<void()>& body);

// Of the thread that runs now.
unsigned ThreadIndex();
unsigned BlockIndex();
const GridShape& Shape();
void* SharedBytes();

// Returns when every thread of the block has come to the same place.
void BlockBarrier(const CallSite& site);

// Returns when every lane of `mask` in the caller's warp has come to the same place. The last one
// to come calls combine(operands) once, with what each lane brought (null for lanes outside of
// mask).
using WarpCombine = void (*)(void* const (&operands)[32]);
void WarpOperation(uint32_t mask, void* operand, WarpCombine combine, const CallSite& site);

}  // namespace nerf::cuda_emulation
