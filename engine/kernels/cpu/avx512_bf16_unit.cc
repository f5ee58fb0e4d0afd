// Compiled with AVX-512-BF16 instructions where the compiler has them (CMakeLists.txt): nothing
// here but product runs before the machine is known to have them, too.
#include "engine/kernels/cpu/pair_product.h"

#ifdef __AVX512BF16__

#include <cpuid.h>
#include <immintrin.h>

namespace nerf::kernels::cpu {
namespace {

constexpr int kLanes = 16;

__m512bh AsPairs(__m512i words) { return reinterpret_cast<__m512bh>(words); }

// Sums of `rows` rows and `vectors` vectors of columns, in registers.
template <int rows, int vectors>
void MultiplyBlock(const PairProductParams& params, int row, int column) {
  __m512 sums[rows][vectors];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) sums[r][v] = _mm512_setzero_ps();
  }
  const uint32_t* const a = params.a + row * params.row_step;
  const uint32_t* b = params.b + column;
  for (int p = 0; p < params.n_pairs; ++p, b += params.n_columns) {
    __m512bh columns[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) columns[v] = AsPairs(_mm512_loadu_si512(b + v * kLanes));
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const __m512bh pair = AsPairs(
          _mm512_set1_epi32(static_cast<int>(a[r * params.row_step + p * params.pair_step])));
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) sums[r][v] = _mm512_dpbf16_ps(sums[r][v], pair, columns[v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
    float* const c = params.c + static_cast<ptrdiff_t>(row + r) * params.n_columns + column;
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) _mm512_storeu_ps(c + v * kLanes, sums[r][v]);
  }
}

void Product(const PairProductParams& params) {
  for (int row = 0; row < params.n_rows; row += 4) {
    int column = 0;
    for (; column + 4 * kLanes <= params.n_columns; column += 4 * kLanes)
      MultiplyBlock<4, 4>(params, row, column);
    for (; column < params.n_columns; column += kLanes) MultiplyBlock<4, 1>(params, row, column);
  }
}

// The processor has AVX-512F and AVX-512-BF16, and the kernel keeps their registers.
bool IsUsable() {
  if (!__builtin_cpu_supports("avx512f")) return false;  // asks the kernel, too
  unsigned eax, ebx, ecx, edx;
  constexpr unsigned kBf16 = 1u << 5;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & kBf16) != 0;
}

constexpr PairUnit kUnit{"AVX512_BF16", 1, Product};

}  // namespace

const PairUnit* Avx512Bf16Unit() {
  static const bool is_usable = IsUsable();
  return is_usable ? &kUnit : nullptr;
}

}  // namespace nerf::kernels::cpu

#else

namespace nerf::kernels::cpu {
const PairUnit* Avx512Bf16Unit() { return nullptr; }
}  // namespace nerf::kernels::cpu

#endif
