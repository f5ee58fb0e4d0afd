// Compiled with AVX-512-BF16 instructions if the compiler supports them (CMakeLists.txt). On a
// machine without them only Avx512Bf16Unit() at the end may be called.
#include "engine/field/kernels/cpu/bf16_unit.h"

#ifdef __AVX512BF16__

#include "engine/field/kernels/cpu/avx512_pairs-inl.h"

namespace nerf::kernels::cpu {
namespace {

constexpr int kLanes = Avx512Pairs::kLanes;
constexpr int kBatchPairs = 64;  // pairs of rows that BackwardWeights packs at a time

__m512bh AsPairs(__m512i words) { return reinterpret_cast<__m512bh>(words); }

// The output from element (row, column) on.
GemmOutput From(GemmOutput to, int row, int column) {
  to.values += row * to.stride + column;
  if (to.gate != nullptr) to.gate += row * to.gate_stride + column;
  return to;
}

// Pairs of the left operand: pair p of row r at words[r * row_step + p * pair_step].
struct Left {
  const uint32_t* words;
  ptrdiff_t row_step, pair_step;
};

// A block of `rows` rows and `vectors` vectors of columns, whose sums are kept in registers.
template <int rows, int vectors>
void MultiplyBlock(const Left& a, int n_pairs, const PairMatrix& b, const GemmOutput& to) {
  __m512 sums[rows][vectors];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sums[r][v] = _mm512_setzero_ps();
  }
  const uint32_t* words = b.first;
  for (int p = 0; p < n_pairs; ++p, words += b.step) {
    __m512bh columns[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) columns[v] = AsPairs(_mm512_loadu_si512(words + v * kLanes));
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
    for (int v = 0; v < vectors; ++v) Avx512Pairs::Store(sums[r][v], to, r, v * kLanes);
  }
}

// Blocks are large enough to hide the latency: an instruction starts per cycle and takes about six.
template <int vectors>
int MultiplyColumns(const Left& a, int n_rows, int n_pairs, const PairMatrix& b, int n_columns,
                    const GemmOutput& to, int column) {
  constexpr int kRows = vectors == 4 ? 4 : 8;
  for (; column + vectors * kLanes <= n_columns; column += vectors * kLanes) {
    const auto block = [&]<int rows>(int row) {
      MultiplyBlock<rows, vectors>({a.words + row * a.row_step, a.row_step, a.pair_step}, n_pairs,
                                   {b.first + column, b.step}, From(to, row, column));
    };
    int row = 0;
    for (; row + kRows <= n_rows; row += kRows) block.template operator()<kRows>(row);
    for (; row < n_rows; ++row) block.template operator()<1>(row);
  }
  return column;
}

void Multiply(const Left& a, int n_rows, int n_pairs, const PairMatrix& b, int n_columns,
              const GemmOutput& to) {
  int column = MultiplyColumns<4>(a, n_rows, n_pairs, b, n_columns, to, 0);
  column = MultiplyColumns<2>(a, n_rows, n_pairs, b, n_columns, to, column);
  MultiplyColumns<1>(a, n_rows, n_pairs, b, n_columns, to, column);
}

// The multiply_rows of Bf16Forward and Bf16BackwardInput: 16 rows at a time, so that their pairs
// stay in the L1 cache.
void MultiplyRows(int n_rows, int n_k, int n_columns, const float* a, ptrdiff_t a_stride,
                  const PairMatrix& b, const GemmOutput& to) {
  constexpr int kRows = 16;
  alignas(64) uint32_t a_words[kRows * kMaxRowPairs];
  const int n_pairs = (n_k + 1) / 2;
  for (int row = 0; row < n_rows; row += kRows) {
    const int n = Min(kRows, n_rows - row);
    for (int r = 0; r < n; ++r) {
      Avx512Pairs::PackRow(a + (row + r) * a_stride, n_k, a_words + r * kMaxRowPairs);
    }
    Multiply({a_words, kMaxRowPairs, 1}, n, n_pairs, b, n_columns, From(to, row, 0));
  }
}

void BackwardWeights(const DenseBackwardWeightsParams& p) {
  constexpr int kRows = 2 * kBatchPairs;
  alignas(64) uint32_t inputs[kBatchPairs * kMaxBf16Width], grads[kBatchPairs * kMaxBf16Width];
  const int n_in = RoundUpTo16(p.n_in);
  for (int row = 0; row < p.n_rows; row += kRows) {
    const int n = Min(kRows, p.n_rows - row);
    Avx512Pairs::PackColumns(p.inputs + static_cast<ptrdiff_t>(row) * p.input_stride,
                             p.input_stride, n, p.n_in, n_in, inputs);
    Avx512Pairs::PackColumns(p.grad_outputs + static_cast<ptrdiff_t>(row) * p.grad_output_stride,
                             p.grad_output_stride, n, p.n_out, p.n_out, grads);
    Multiply({inputs, 1, n_in}, p.n_in, (n + 1) / 2, {grads, p.n_out}, p.n_out,
             {.values = p.grad_weights, .stride = p.n_out, .accumulate = true});
  }
}

constexpr Bf16Unit kUnit{.name = "AVX512_BF16",
                         .forward = Bf16Forward<Avx512Pairs, MultiplyRows>,
                         .backward_input = Bf16BackwardInput<Avx512Pairs, MultiplyRows>,
                         .backward_weights = BackwardWeights,
                         .pack_columns = Avx512Pairs::PackColumns};

}  // namespace

const Bf16Unit* Avx512Bf16Unit() {
  static const bool is_usable = Avx512Pairs::IsUsable();
  return is_usable ? &kUnit : nullptr;
}

}  // namespace nerf::kernels::cpu

#else

namespace nerf::kernels::cpu {
const Bf16Unit* Avx512Bf16Unit() { return nullptr; }
}  // namespace nerf::kernels::cpu

#endif
