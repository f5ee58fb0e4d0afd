#pragma once

namespace nerf {

// Prints the failed expression with file and line, and aborts.
[[noreturn]] void CheckFailed(const char* expression, const char* file, int line);

}  // namespace nerf

// For broken invariants of our own code. Bad user input returns an absl::Status instead.
#define NERF_CHECK(condition) \
  ((condition) ? (void)0 : ::nerf::CheckFailed(#condition, __FILE__, __LINE__))

#if defined(NDEBUG) && !defined(NERF_SANITIZED)
#define NERF_DCHECK(condition) ((void)0)
#else
#define NERF_DCHECK(condition) NERF_CHECK(condition)
#endif

// Marks scalar functions that the CPU loops and the CUDA kernels share.
#ifdef __CUDACC__
#define NERF_HD __host__ __device__
#else
#define NERF_HD
#endif
