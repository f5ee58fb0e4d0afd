#include "engine/field/kernels/dense_layer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "engine/field/kernels/cpu/bf16_units.h"
#include "tests/testing/central_difference.h"
#include "tests/testing/plain_bf16_unit.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/reference/dense_layer.h"
#include "tests/testing/simd_paths.h"

namespace nerf::kernels {
namespace {

using reference::Matrix;

// Tiles have four rows; chunks of training have 128.
constexpr int kRowCounts[] = {0, 1, 3, 4, 5, 17, 127, 128, 129};
struct LayerSize {
  int n_in, n_out;
};
// The widths of the field's layers, 48 (not a power of two), and the largest of bf16 units.
constexpr LayerSize kLayerSizes[] = {{32, 64}, {64, 16}, {64, 64}, {48, 48}, {16, 16}, {256, 256}};
// Input counts that only the forward pass allows, and that only the weights' gradient allows.
constexpr LayerSize kOddInputs{33, 80}, kFourInputs{20, 64};

std::vector<LayerSize> LayerSizesAnd(const LayerSize& more) {
  std::vector<LayerSize> sizes(std::begin(kLayerSizes), std::end(kLayerSizes));
  sizes.push_back(more);
  return sizes;
}
constexpr int kGap = 5;  // floats between rows, to check that strides are respected
constexpr float kDenseLayerUntouched = -77;

// Random numbers in [-1, 1). If a bf16 unit is selected they are exact in bf16, so that one error
// bound holds for every path.
std::vector<float> RandomOperands(size_t n, uint32_t stream) {
  std::vector<float> values = RandomFloats(n, -1, 1, stream);
  if (cpu::SelectedBf16Unit() == nullptr) return values;
  for (float& value : values)
    value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) & 0xffff0000u);
  return values;
}

// A float matrix with gaps between its rows.
struct Strided {
  Strided(int n_rows, int n_columns, uint32_t stream)
      : n_rows(n_rows), n_columns(n_columns), stride(n_columns + kGap) {
    values = RandomOperands(static_cast<size_t>(n_rows) * stride, stream);
    for (int r = 0; r < n_rows; ++r) {
      for (int c = n_columns; c < stride; ++c) values[r * stride + c] = kDenseLayerUntouched;
    }
  }
  Matrix Wide() const {
    Matrix wide(n_rows, n_columns);
    for (int r = 0; r < n_rows; ++r)
      for (int c = 0; c < n_columns; ++c) wide.at(r, c) = values[r * stride + c];
    return wide;
  }
  int n_rows, n_columns, stride;
  std::vector<float> values;
};

Matrix Magnitudes(Matrix m) {
  for (double& v : m.values) v = std::abs(v);
  return m;
}

// A sum of n products in floats is off by at most n roundings of the sum of magnitudes.
void ExpectClose(const Strided& actual, const Matrix& expected, const Matrix& magnitudes, int n) {
  ASSERT_EQ(actual.n_rows, expected.n_rows);
  for (int r = 0; r < actual.n_rows; ++r) {
    for (int c = 0; c < actual.n_columns; ++c) {
      ASSERT_NEAR(actual.values[r * actual.stride + c], expected.at(r, c),
                  (n + 1) * 0x1p-24 * magnitudes.at(r, c))
          << r << ", " << c;
    }
    for (int c = actual.n_columns; c < actual.stride; ++c)
      ASSERT_EQ(actual.values[r * actual.stride + c], kDenseLayerUntouched);
  }
}

std::vector<float> Packed(const Matrix& m) { return {m.values.begin(), m.values.end()}; }

Matrix RandomMatrix(int n_rows, int n_columns, uint32_t stream) {
  const std::vector<float> values = RandomOperands(static_cast<size_t>(n_rows) * n_columns, stream);
  Matrix m(n_rows, n_columns);
  m.values.assign(values.begin(), values.end());
  return m;
}

Matrix Transposed(const Matrix& m) {
  Matrix t(m.n_columns, m.n_rows);
  for (int r = 0; r < m.n_rows; ++r)
    for (int c = 0; c < m.n_columns; ++c) t.at(c, r) = m.at(r, c);
  return t;
}

class DenseLayerTest : public SimdPathTest {};
NERF_INSTANTIATE_SIMD_PATHS(DenseLayerTest);

// Runs once per bf16 unit.
class Bf16DenseLayerTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(cpu::SelectBf16Unit(GetParam())); }
  void TearDown() override { cpu::SelectBf16Unit(""); }
};
std::vector<std::string> Bf16UnitNames() {
  AddPlainBf16Unit();
  std::vector<std::string> names;
  for (const cpu::Bf16Unit* unit : cpu::Bf16Units()) names.emplace_back(unit->name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Units, Bf16DenseLayerTest, testing::ValuesIn(Bf16UnitNames()),
                         [](const auto& unit) { return unit.param; });

void ForwardAgreesWithTheReference() {
  for (const LayerSize& size : LayerSizesAnd(kOddInputs)) {
    const Matrix weights = RandomMatrix(size.n_in, size.n_out, 1);
    for (int n_rows : kRowCounts) {
      for (bool relu : {false, true}) {
        const Strided inputs(n_rows, size.n_in, 2);
        Strided outputs(n_rows, size.n_out, 3);
        cpu::DenseForward({.n_rows = n_rows,
                           .n_in = size.n_in,
                           .n_out = size.n_out,
                           .inputs = inputs.values.data(),
                           .input_stride = inputs.stride,
                           .weights = Packed(weights).data(),
                           .outputs = outputs.values.data(),
                           .output_stride = outputs.stride,
                           .relu = relu});
        ExpectClose(outputs, reference::DenseForward(inputs.Wide(), weights, relu),
                    reference::DenseForward(Magnitudes(inputs.Wide()), Magnitudes(weights), false),
                    size.n_in);
      }
    }
  }
}

void AccumulatingForwardAddsBeforeTheRelu() {
  const Matrix weights = RandomMatrix(16, 64, 1);
  const Strided inputs(9, 16, 2), before(9, 64, 3);
  Strided outputs = before;
  cpu::DenseForward({.n_rows = 9,
                     .n_in = 16,
                     .n_out = 64,
                     .inputs = inputs.values.data(),
                     .input_stride = inputs.stride,
                     .weights = Packed(weights).data(),
                     .outputs = outputs.values.data(),
                     .output_stride = outputs.stride,
                     .relu = true,
                     .accumulate = true});
  const Matrix product = reference::DenseForward(inputs.Wide(), weights, false);
  for (int r = 0; r < 9; ++r) {
    for (int c = 0; c < 64; ++c) {
      const float held = before.values[r * before.stride + c];
      ASSERT_NEAR(outputs.values[r * outputs.stride + c], std::max(0.0, product.at(r, c) + held),
                  18 * 17 * 0x1p-24)
          << r << ", " << c;
    }
  }
}

void GradientToSomeInputsReadsTheirColumnsOfTheWeights() {
  // Inputs 16 to 31 of a layer of 32, from the whole layer's transposed weights.
  const Matrix weights = RandomMatrix(32, 64, 1);
  const std::vector<float> transposed = Packed(Transposed(weights));
  const Strided grad_outputs(9, 64, 2);
  Strided all(9, 32, 3), some(9, 16, 4);
  const auto run = [&](int first, Strided* grad_inputs) {
    cpu::DenseBackwardInput({.n_rows = 9,
                             .n_in = grad_inputs->n_columns,
                             .n_out = 64,
                             .grad_outputs = grad_outputs.values.data(),
                             .grad_output_stride = grad_outputs.stride,
                             .weights = transposed.data() + first,
                             .weight_stride = 32,
                             .grad_inputs = grad_inputs->values.data(),
                             .grad_input_stride = grad_inputs->stride});
  };
  run(0, &all);
  run(16, &some);
  for (int r = 0; r < 9; ++r) {
    for (int c = 0; c < 16; ++c)
      ASSERT_EQ(some.values[r * some.stride + c], all.values[r * all.stride + 16 + c]);
  }
}

void GradientToInputsAgreesWithTheReferenceAndClosesTheGate() {
  for (const LayerSize& size : kLayerSizes) {
    const Matrix weights = RandomMatrix(size.n_in, size.n_out, 1);
    for (int n_rows : kRowCounts) {
      for (bool gated : {false, true}) {
        const Strided grad_outputs(n_rows, size.n_out, 2);
        Strided gate(n_rows, size.n_in, 4);
        for (size_t i = 0; i < gate.values.size(); i += 3) gate.values[i] = 0;  // closed, not open
        Strided grad_inputs(n_rows, size.n_in, 3);
        cpu::DenseBackwardInput({.n_rows = n_rows,
                                 .n_in = size.n_in,
                                 .n_out = size.n_out,
                                 .grad_outputs = grad_outputs.values.data(),
                                 .grad_output_stride = grad_outputs.stride,
                                 .weights = Packed(Transposed(weights)).data(),
                                 .gate = gated ? gate.values.data() : nullptr,
                                 .gate_stride = gate.stride,
                                 .grad_inputs = grad_inputs.values.data(),
                                 .grad_input_stride = grad_inputs.stride});
        Matrix expected = reference::DenseBackwardInputs(grad_outputs.Wide(), weights);
        for (int r = 0; gated && r < n_rows; ++r) {
          for (int c = 0; c < size.n_in; ++c) {
            if (gate.values[r * gate.stride + c] <= 0) expected.at(r, c) = 0;
          }
        }
        ExpectClose(
            grad_inputs, expected,
            reference::DenseBackwardInputs(Magnitudes(grad_outputs.Wide()), Magnitudes(weights)),
            size.n_out);
      }
    }
  }
}

void GradientToInputsMayOverwriteItsGate() {
  // The training step writes the gradient by a layer's inputs over those inputs.
  const Matrix weights = RandomMatrix(64, 64, 1);
  const Strided grad_outputs(9, 64, 2), gate(9, 64, 4);
  Strided apart(9, 64, 3), in_place = gate;
  const auto run = [&](const float* gate_values, Strided* grad_inputs) {
    cpu::DenseBackwardInput({.n_rows = 9,
                             .n_in = 64,
                             .n_out = 64,
                             .grad_outputs = grad_outputs.values.data(),
                             .grad_output_stride = grad_outputs.stride,
                             .weights = Packed(Transposed(weights)).data(),
                             .gate = gate_values,
                             .gate_stride = gate.stride,
                             .grad_inputs = grad_inputs->values.data(),
                             .grad_input_stride = grad_inputs->stride});
  };
  run(gate.values.data(), &apart);
  run(in_place.values.data(), &in_place);
  EXPECT_EQ(apart.values, in_place.values);
}

void GradientToWeightsIsAddedToWhatIsThere() {
  for (const LayerSize& size : LayerSizesAnd(kFourInputs)) {
    for (int n_rows : kRowCounts) {
      const Strided inputs(n_rows, size.n_in, 1), grad_outputs(n_rows, size.n_out, 2);
      std::vector<float> grad_weights(static_cast<size_t>(size.n_in) * size.n_out, 0.5f);
      cpu::DenseBackwardWeights({.n_rows = n_rows,
                                 .n_in = size.n_in,
                                 .n_out = size.n_out,
                                 .inputs = inputs.values.data(),
                                 .input_stride = inputs.stride,
                                 .grad_outputs = grad_outputs.values.data(),
                                 .grad_output_stride = grad_outputs.stride,
                                 .grad_weights = grad_weights.data()});
      const Matrix expected = reference::DenseBackwardWeights(inputs.Wide(), grad_outputs.Wide());
      const Matrix magnitudes = reference::DenseBackwardWeights(Magnitudes(inputs.Wide()),
                                                                Magnitudes(grad_outputs.Wide()));
      for (size_t i = 0; i < grad_weights.size(); ++i) {
        ASSERT_NEAR(grad_weights[i], 0.5 + expected.values[i],
                    (n_rows + 2) * 0x1p-24 * (magnitudes.values[i] + 0.5))
            << i;
      }
    }
  }
}

void HandWorkedProduct() {
  // Two inputs, sixteen outputs: weight (k, n) = n for k = 0, 1 for k = 1.
  std::vector<float> weights(32);
  for (int n = 0; n < 16; ++n) {
    weights[n] = static_cast<float>(n);
    weights[16 + n] = 1;
  }
  const float inputs[] = {2, -5};
  float outputs[16];
  cpu::DenseForward({.n_rows = 1,
                     .n_in = 2,
                     .n_out = 16,
                     .inputs = inputs,
                     .input_stride = 2,
                     .weights = weights.data(),
                     .outputs = outputs,
                     .output_stride = 16,
                     .relu = true});
  for (int n = 0; n < 16; ++n) EXPECT_EQ(outputs[n], std::max(0, 2 * n - 5));
}

#define NERF_TEST_DENSE_LAYERS(Claim)        \
  TEST_P(DenseLayerTest, Claim) { Claim(); } \
  TEST_P(Bf16DenseLayerTest, Claim) { Claim(); }
NERF_TEST_DENSE_LAYERS(ForwardAgreesWithTheReference)
NERF_TEST_DENSE_LAYERS(AccumulatingForwardAddsBeforeTheRelu)
NERF_TEST_DENSE_LAYERS(GradientToSomeInputsReadsTheirColumnsOfTheWeights)
NERF_TEST_DENSE_LAYERS(GradientToInputsAgreesWithTheReferenceAndClosesTheGate)
NERF_TEST_DENSE_LAYERS(GradientToInputsMayOverwriteItsGate)
NERF_TEST_DENSE_LAYERS(GradientToWeightsIsAddedToWhatIsThere)
NERF_TEST_DENSE_LAYERS(HandWorkedProduct)

// The packed pairs of a matrix, with the rows after its last that a product may read. It multiplies
// them by zeros; large numbers there reveal it if not.
std::vector<uint32_t> PairsOf(const Matrix& m) {
  std::vector<uint32_t> pairs((m.n_rows / 2 + 15) * m.n_columns, 0x7f007f00u);
  cpu::PackBf16Pairs(m.n_rows, m.n_columns, Packed(m).data(), pairs.data());
  return pairs;
}

TEST_P(Bf16DenseLayerTest, WeightsAsPairsGiveTheSame) {
  EXPECT_TRUE(cpu::UsesBf16Layers());
  const Matrix weights = RandomMatrix(32, 64, 1);
  const std::vector<float> packed = Packed(weights), transposed = Packed(Transposed(weights));
  const std::vector<uint32_t> pairs = PairsOf(weights),
                              transposed_pairs = PairsOf(Transposed(weights));
  const Strided inputs(9, 32, 2), grads(9, 64, 3);
  // All inputs of a layer, and the last 16 of them.
  for (const int first : {0, 16}) {
    const int n_in = 32 - first;
    Strided outputs[2] = {{9, 64, 4}, {9, 64, 5}}, grad_inputs[2] = {{9, n_in, 6}, {9, n_in, 7}};
    for (const bool as_pairs : {false, true}) {
      cpu::DenseForward({.n_rows = 9,
                         .n_in = n_in,
                         .n_out = 64,
                         .inputs = inputs.values.data(),
                         .input_stride = inputs.stride,
                         .weights = packed.data() + first * 64,
                         .weight_pairs = as_pairs ? pairs.data() + first / 2 * 64 : nullptr,
                         .outputs = outputs[as_pairs].values.data(),
                         .output_stride = outputs[0].stride});
      cpu::DenseBackwardInput({.n_rows = 9,
                               .n_in = n_in,
                               .n_out = 64,
                               .grad_outputs = grads.values.data(),
                               .grad_output_stride = grads.stride,
                               .weights = transposed.data() + first,
                               .weight_pairs = as_pairs ? transposed_pairs.data() + first : nullptr,
                               .weight_stride = 32,
                               .grad_inputs = grad_inputs[as_pairs].values.data(),
                               .grad_input_stride = grad_inputs[0].stride});
    }
    EXPECT_EQ(outputs[0].values, outputs[1].values) << first;
    EXPECT_EQ(grad_inputs[0].values, grad_inputs[1].values) << first;
  }
}

TEST_P(Bf16DenseLayerTest, OperandsAreRoundedToTheNearestBf16TiesToEven) {
  // 1 + 2^-8 and 1 + 3 * 2^-8 are halfway between neighboring bf16 numbers.
  const float inputs[] = {1 + 0x1p-8f, 1 + 3 * 0x1p-8f, -1 - 0x1.2p-8f, 0x1p-140f};
  for (int k = 0; k < 4; ++k) {
    std::vector<float> weights(4 * 16, 0.0f);
    std::fill_n(weights.begin() + 16 * k, 16, 1.0f);
    float outputs[16];
    cpu::DenseForward({.n_rows = 1,
                       .n_in = 4,
                       .n_out = 16,
                       .inputs = inputs,
                       .input_stride = 4,
                       .weights = weights.data(),
                       .outputs = outputs,
                       .output_stride = 16});
    const float expected[] = {1, 1 + 0x1p-6f, -1 - 0x1p-7f, 0};
    for (float output : outputs) EXPECT_NEAR(output, expected[k], 1e-40) << k;
  }
}

class Bf16UnitsTest : public testing::Test {
 protected:
  Bf16UnitsTest() { AddPlainBf16Unit(); }
  ~Bf16UnitsTest() override { cpu::SelectBf16Unit(""); }
};

TEST_F(Bf16UnitsTest, WiderLayersThanTheBuffersAreMultipliedInFp32) {
  ASSERT_TRUE(cpu::SelectBf16Unit("BF16_PLAIN"));
  const std::vector<float> inputs(258, 1 + 0x1p-12f), weights(258 * 16, 1.0f);
  float outputs[16];
  cpu::DenseForward({.n_rows = 1,
                     .n_in = 258,
                     .n_out = 16,
                     .inputs = inputs.data(),
                     .input_stride = 258,
                     .weights = weights.data(),
                     .outputs = outputs,
                     .output_stride = 16});
  EXPECT_NEAR(outputs[0], 258 * (1 + 0x1p-12), 1e-4);
}

TEST_F(Bf16UnitsTest, UnitIsAddedOnce) {
  const size_t n_units = cpu::Bf16Units().size();
  AddPlainBf16Unit();
  EXPECT_EQ(cpu::Bf16Units().size(), n_units);
  EXPECT_STREQ(cpu::Bf16Units().back()->name, "BF16_PLAIN");
}

TEST_F(Bf16UnitsTest, NoPairsAreMadeForPathsInFp32) {
  EXPECT_FALSE(cpu::UsesBf16Layers());
  const std::vector<float> values(32, 1.0f);
  std::vector<uint32_t> pairs(16, 77);
  cpu::PackBf16Pairs(2, 16, values.data(), pairs.data());
  EXPECT_EQ(pairs, std::vector<uint32_t>(16, 77));
}

TEST_F(Bf16UnitsTest, UnknownUnitChangesNothing) {
  ASSERT_TRUE(cpu::SelectBf16Unit("BF16_PLAIN"));
  EXPECT_FALSE(cpu::SelectBf16Unit("ABACUS"));
  EXPECT_STREQ(cpu::SelectedBf16Unit()->name, "BF16_PLAIN");
  EXPECT_TRUE(cpu::SelectBf16Unit(""));
  EXPECT_EQ(cpu::SelectedBf16Unit(), nullptr);
}

TEST(DenseLayerReferenceTest, GradientsAgreeWithCentralDifferences) {
  Matrix inputs = RandomMatrix(3, 4, 1), weights = RandomMatrix(4, 5, 2);
  const Matrix grad_outputs = RandomMatrix(3, 5, 3);
  const auto loss = [&] {
    const Matrix outputs = reference::DenseForward(inputs, weights, false);
    double sum = 0;
    for (size_t i = 0; i < outputs.values.size(); ++i)
      sum += outputs.values[i] * grad_outputs.values[i];
    return sum;
  };
  const auto expect_gradient = [&](Matrix* variable, const Matrix& gradient) {
    constexpr double kStep = 1e-4;  // the loss is linear: only rounding is left
    for (size_t i = 0; i < variable->values.size(); ++i) {
      EXPECT_NEAR(gradient.values[i], CentralDifference(&variable->values[i], kStep, loss), 1e-10);
    }
  };
  expect_gradient(&inputs, reference::DenseBackwardInputs(grad_outputs, weights));
  expect_gradient(&weights, reference::DenseBackwardWeights(inputs, grad_outputs));
}

}  // namespace
}  // namespace nerf::kernels
