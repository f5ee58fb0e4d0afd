#pragma once

// For files compiled with AVX-512F, AVX-512BW and AVX-512-BF16. Internal linkage, so that the
// linker cannot use this code in files for other instruction sets.

// GCC 12 warns of an uninitialized variable in its own intrinsics (bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <cpuid.h>
#include <immintrin.h>

#include "engine/field/kernels/cpu/bf16_unit.h"

namespace nerf::kernels::cpu {
namespace {

// Packs values in bf16 pairs (bf16_unit.h) and stores sums.
struct Avx512Pairs {
  static constexpr int kLanes = 16;

  // The processor has the instructions and the operating system saves their registers.
  static bool IsUsable() {
    // This checks the operating system too.
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw")) return false;
    unsigned eax, ebx, ecx, edx;
    constexpr unsigned kBf16 = 1u << 5;
    return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & kBf16) != 0;
  }

  static void StorePairs(__m512 low, __m512 high, uint32_t* words) {
    _mm512_storeu_si512(words, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
  }

  // The first n of 16 values; the others are zeros.
  static __m512 LoadFirst(const float* values, int n) {
    if (n >= kLanes) return _mm512_loadu_ps(values);
    return _mm512_maskz_loadu_ps(n > 0 ? static_cast<__mmask16>((1u << n) - 1) : 0, values);
  }

  // Pairs neighbors in a row: words[p] holds values 2 p and 2 p + 1. Writes whole vectors of words,
  // with zeros after the last value.
  static void PackRow(const float* values, int n_values, uint32_t* words) {
    int i = 0;
    for (; i + 2 * kLanes <= n_values; i += 2 * kLanes) {
      StorePairs(_mm512_loadu_ps(values + i), _mm512_loadu_ps(values + i + kLanes), words + i / 2);
    }
    if (i < n_values) {
      StorePairs(LoadFirst(values + i, n_values - i),
                 LoadFirst(values + i + kLanes, n_values - i - kLanes), words + i / 2);
    }
  }

  // Pairs neighbors in a column: words[p][c] holds value c of rows 2 p and 2 p + 1. If n_rows is
  // odd, a row of zeros is added. n_columns is a multiple of 16, at least n_values; the columns
  // beyond n_values are zeros.
  static void PackColumns(const float* values, ptrdiff_t stride, int n_rows, int n_values,
                          int n_columns, uint32_t* words) {
    alignas(64) static constexpr uint16_t kInterleave[32] = {
        0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const __m512i interleave = _mm512_load_si512(kInterleave);
    const auto store = [interleave](__m512 even, __m512 odd, uint32_t* to) {
      const __m512bh halves = _mm512_cvtne2ps_pbh(odd, even);
      _mm512_storeu_si512(to,
                          _mm512_permutexvar_epi16(interleave, reinterpret_cast<__m512i>(halves)));
    };
    const int n_whole = n_values / kLanes * kLanes;
    int row = 0;
    for (; row + 2 <= n_rows; row += 2, words += n_columns) {
      const float* const even = values + row * stride;
      const float* const odd = even + stride;
      for (int c = 0; c < n_whole; c += kLanes)
        store(_mm512_loadu_ps(even + c), _mm512_loadu_ps(odd + c), words + c);
      for (int c = n_whole; c < n_columns; c += kLanes)
        store(LoadFirst(even + c, n_values - c), LoadFirst(odd + c, n_values - c), words + c);
    }
    if (row < n_rows) {
      const float* const even = values + row * stride;
      for (int c = 0; c < n_columns; c += kLanes)
        store(LoadFirst(even + c, n_values - c), _mm512_setzero_ps(), words + c);
    }
  }

  // Stores the sums of 16 columns of one row of a block.
  static void Store(__m512 sums, const GemmOutput& to, int row, int column) {
    float* const out = to.values + row * to.stride + column;
    if (to.accumulate) sums = _mm512_add_ps(sums, _mm512_loadu_ps(out));
    if (to.relu) sums = _mm512_max_ps(sums, _mm512_setzero_ps());
    if (to.gate != nullptr) {
      const __m512 gate = _mm512_loadu_ps(to.gate + row * to.gate_stride + column);
      sums = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(gate, _mm512_setzero_ps(), _CMP_GT_OQ), sums);
    }
    _mm512_storeu_ps(out, sums);
  }
  // Stores the sums of the rows from first_row on; n_columns is a multiple of 16.
  static void StoreRows(const float* sums, ptrdiff_t stride, int n_rows, int n_columns,
                        GemmOutput to, int first_row) {
    for (int r = 0; r < n_rows; ++r) {
      for (int c = 0; c < n_columns; c += kLanes)
        Store(_mm512_loadu_ps(sums + r * stride + c), to, first_row + r, c);
    }
  }
};

}  // namespace
}  // namespace nerf::kernels::cpu
