#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>

#include "tests/testing/cuda_emulation/call_site.h"

// Runs CUDA kernels that were compiled as C++, for tests on machines without a device. Blocks run
// one after another; the threads of a block are fibers that switch at barriers and warp operations.
// It is for checking correctness, not for speed: threads run in a fixed order, each as far as
// possible, which reveals missing barriers. Kernels of several host threads run one after another.
namespace nerf::cuda_emulation {

// Threads wait for others that ended or took another branch. The message has the kernel, the block,
// and which threads wait where.
class DivergenceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The order in which blocks, and threads within a block, first run. A result that depends on it has
// a race.
enum class ThreadOrder { kRising, kFalling };
void SetThreadOrder(ThreadOrder order);

struct GridShape {
  unsigned n_blocks = 1, n_threads = 1;
  size_t shared_bytes = 0;
};

// Calls body once for each thread of each block. Shared memory is filled with NaN before each
// block, static variables of templates excepted. Throws DivergenceError.
void RunGrid(const char* name, const GridShape& shape, const std::function<void()>& body);

// Indices of the running thread.
unsigned ThreadIndex();
unsigned BlockIndex();
const GridShape& Shape();
void* SharedBytes();

// Returns when every thread of the block has called it at the same call site.
void BlockBarrier(const CallSite& site);

// Returns when every lane of `mask` in the caller's warp has called it at the same call site. The
// last one calls combine(operands) once, with the operand of each lane (null for lanes outside of
// mask).
using WarpCombine = void (*)(void* const (&operands)[32]);
void WarpOperation(uint32_t mask, void* operand, WarpCombine combine, const CallSite& site);

}  // namespace nerf::cuda_emulation
