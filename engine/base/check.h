#pragma once

namespace nerf {

// Prints the failed expression with its place and aborts. Never returns.
[[noreturn]] void CheckFailed(const char* expression, const char* file, int line);

}  // namespace nerf

// For broken invariants of our own code, never for user input (that gets an absl::Status).
#define NERF_CHECK(condition) \
  ((condition) ? (void)0 : ::nerf::CheckFailed(#condition, __FILE__, __LINE__))

#if defined(NDEBUG) && !defined(NERF_SANITIZED)
#define NERF_DCHECK(condition) ((void)0)
#else
#define NERF_DCHECK(condition) NERF_CHECK(condition)
#endif

// Marks scalar steps that the CPU loops and the CUDA kernels share.
#ifdef __CUDACC__
#define NERF_HD __host__ __device__
#else
#define NERF_HD
#endif
