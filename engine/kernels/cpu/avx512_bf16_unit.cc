// Compiled with AVX-512-BF16 instructions where the compiler has them (CMakeLists.txt): only the
// question at the end whether the machine has them, too, runs before that is known.
#include "engine/kernels/cpu/pair_product.h"

#ifdef __AVX512BF16__

// GCC 12 takes the undefined operand of its own intrinsics for a variable that is used before it
// is set (bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <cpuid.h>
#include <immintrin.h>

namespace nerf::kernels::cpu {
namespace {

constexpr int kLanes = 16;
constexpr int kMaxWords = kMaxPairRows / 2;  // of a row

__m512bh AsPairs(__m512i words) { return reinterpret_cast<__m512bh>(words); }
__m512i AsWords(__m512bh pairs) { return reinterpret_cast<__m512i>(pairs); }
int Min(int a, int b) { return a < b ? a : b; }

// The first n of 16 values; the others are zeros.
__m512 LoadFirst(const float* values, int n) {
  if (n >= kLanes) return _mm512_loadu_ps(values);
  return _mm512_maskz_loadu_ps(n > 0 ? static_cast<__mmask16>((1u << n) - 1) : 0, values);
}

// Neighbours in a row: words[p] holds values 2 p and 2 p + 1. Writes whole vectors of words.
void PairAlongRow(const float* values, int n_values, uint32_t* words) {
  for (int i = 0; i < n_values; i += 2 * kLanes) {
    const __m512 low = LoadFirst(values + i, n_values - i);
    const __m512 high = LoadFirst(values + i + kLanes, n_values - i - kLanes);
    _mm512_storeu_si512(words + i / 2, AsWords(_mm512_cvtne2ps_pbh(high, low)));
  }
}

// Neighbours in a column: words[p][c] holds value c of rows 2 p and 2 p + 1. Where n_rows is odd a
// row of zeros is added. n_columns is a multiple of 16 and at least n_values.
void PairAlongColumns(const float* values, int stride, int n_rows, int n_values, int n_columns,
                      uint32_t* words) {
  alignas(64) static constexpr uint16_t kInterleave[32] = {
      0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i interleave = _mm512_load_si512(kInterleave);
  for (int row = 0; row < n_rows; row += 2, words += n_columns) {
    const float* const even = values + static_cast<ptrdiff_t>(row) * stride;
    const float* const odd = even + stride;
    for (int c = 0; c < n_columns; c += kLanes) {
      const __m512 low = LoadFirst(even + c, n_values - c);
      const __m512 high = row + 1 < n_rows ? LoadFirst(odd + c, n_values - c) : _mm512_setzero_ps();
      _mm512_storeu_si512(
          words + c, _mm512_permutexvar_epi16(interleave, AsWords(_mm512_cvtne2ps_pbh(high, low))));
    }
  }
}

// What happens to sums before they are stored; pointers to the block's first.
struct Destination {
  float* values;
  ptrdiff_t stride;
  bool relu = false;
  bool accumulate = false;
  const float* gate = nullptr;
  ptrdiff_t gate_stride = 0;

  Destination From(int row, int column) const {
    Destination block = *this;
    block.values += row * stride + column;
    if (gate != nullptr) block.gate += row * gate_stride + column;
    return block;
  }
};

// Pairs of the left operand: pair p of row r at words[r * row_step + p * pair_step].
struct Left {
  const uint32_t* words;
  ptrdiff_t row_step, pair_step;
};

// Sums of `rows` rows and `vectors` vectors of columns, in registers. b is [n_pairs][n_columns].
template <int rows, int vectors>
void MultiplyBlock(const Left& a, int n_pairs, const uint32_t* b, int n_columns,
                   const Destination& to) {
  __m512 sums[rows][vectors];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sums[r][v] = _mm512_setzero_ps();
  }
  for (int p = 0; p < n_pairs; ++p, b += n_columns) {
    __m512bh columns[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) columns[v] = AsPairs(_mm512_loadu_si512(b + v * kLanes));
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const __m512bh pair =
          AsPairs(_mm512_set1_epi32(static_cast<int>(a.words[r * a.row_step + p * a.pair_step])));
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sums[r][v] = _mm512_dpbf16_ps(sums[r][v], pair, columns[v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      float* const out = to.values + r * to.stride + v * kLanes;
      __m512 value = sums[r][v];
      if (to.accumulate) value = _mm512_add_ps(value, _mm512_loadu_ps(out));
      if (to.relu) value = _mm512_max_ps(value, _mm512_setzero_ps());
      if (to.gate != nullptr) {
        const __m512 gate = _mm512_loadu_ps(to.gate + r * to.gate_stride + v * kLanes);
        value =
            _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(gate, _mm512_setzero_ps(), _CMP_GT_OQ), value);
      }
      _mm512_storeu_ps(out, value);
    }
  }
}

// Enough sums at work: a product of pairs begins in each cycle and takes about six.
template <int vectors>
int MultiplyColumns(const Left& a, int n_rows, int n_pairs, const uint32_t* b, int n_columns,
                    const Destination& to, int column) {
  constexpr int kRows = vectors == 4 ? 4 : 8;
  for (; column + vectors * kLanes <= n_columns; column += vectors * kLanes) {
    const auto block = [&]<int rows>(int row) {
      MultiplyBlock<rows, vectors>({a.words + row * a.row_step, a.row_step, a.pair_step}, n_pairs,
                                   b + column, n_columns, to.From(row, column));
    };
    int row = 0;
    for (; row + kRows <= n_rows; row += kRows) block.template operator()<kRows>(row);
    for (; row < n_rows; ++row) block.template operator()<1>(row);
  }
  return column;
}

void Multiply(const Left& a, int n_rows, int n_pairs, const uint32_t* b, int n_columns,
              const Destination& to) {
  int column = MultiplyColumns<4>(a, n_rows, n_pairs, b, n_columns, to, 0);
  column = MultiplyColumns<2>(a, n_rows, n_pairs, b, n_columns, to, column);
  MultiplyColumns<1>(a, n_rows, n_pairs, b, n_columns, to, column);
}

// to[m][n] = sum_k a[m][k] * b[k][n], some rows at a time: their pairs stay in the L1 cache.
void MultiplyRows(int n_rows, int n_k, int n_columns, const float* a, int a_stride, const float* b,
                  int b_stride, const Destination& to) {
  constexpr int kRows = 16;
  alignas(64) uint32_t a_words[kRows * kMaxWords], b_words[kMaxWords * kMaxPairRows];
  PairAlongColumns(b, b_stride, n_k, n_columns, n_columns, b_words);
  const int n_pairs = (n_k + 1) / 2;
  for (int row = 0; row < n_rows; row += kRows) {
    const int n = Min(kRows, n_rows - row);
    for (int r = 0; r < n; ++r) {
      PairAlongRow(a + static_cast<ptrdiff_t>(row + r) * a_stride, n_k, a_words + r * kMaxWords);
    }
    Multiply({a_words, kMaxWords, 1}, n, n_pairs, b_words, n_columns, to.From(row, 0));
  }
}

void Forward(const DenseForwardParams& p) {
  MultiplyRows(
      p.n_rows, p.n_in, p.n_out, p.inputs, p.input_stride, p.weights, p.n_out,
      {.values = p.outputs, .stride = p.output_stride, .relu = p.relu, .accumulate = p.accumulate});
}

void BackwardInput(const DenseBackwardInputParams& p) {
  MultiplyRows(p.n_rows, p.n_out, p.n_in, p.grad_outputs, p.grad_output_stride, p.weights,
               p.weight_stride > 0 ? p.weight_stride : p.n_in,
               {.values = p.grad_inputs,
                .stride = p.grad_input_stride,
                .gate = p.gate,
                .gate_stride = p.gate_stride});
}

void BackwardWeights(const DenseBackwardWeightsParams& p) {
  constexpr int kRows = 2 * kMaxPairs;
  alignas(64) uint32_t inputs[kMaxPairs * kMaxPairRows], grads[kMaxPairs * kMaxPairRows];
  const int n_in = (p.n_in + kLanes - 1) / kLanes * kLanes;
  for (int row = 0; row < p.n_rows; row += kRows) {
    const int n = Min(kRows, p.n_rows - row);
    PairAlongColumns(p.inputs + static_cast<ptrdiff_t>(row) * p.input_stride, p.input_stride, n,
                     p.n_in, n_in, inputs);
    PairAlongColumns(p.grad_outputs + static_cast<ptrdiff_t>(row) * p.grad_output_stride,
                     p.grad_output_stride, n, p.n_out, p.n_out, grads);
    Multiply({inputs, 1, n_in}, p.n_in, (n + 1) / 2, grads, p.n_out,
             {.values = p.grad_weights, .stride = p.n_out, .accumulate = true});
  }
}

// The processor has AVX-512F, AVX-512BW and AVX-512-BF16, and the kernel keeps their registers.
bool IsUsable() {
  // Asks the kernel, too.
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw")) return false;
  unsigned eax, ebx, ecx, edx;
  constexpr unsigned kBf16 = 1u << 5;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & kBf16) != 0;
}

constexpr PairLayers kLayers{Forward, BackwardInput, BackwardWeights};
constexpr PairUnit kUnit{.name = "AVX512_BF16", .layers = &kLayers};

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
