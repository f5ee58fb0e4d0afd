#include "engine/field/kernels/ngp_mlp.h"

#include <algorithm>
#include <cmath>

#include "engine/field/kernels/activation.h"
#include "engine/field/kernels/hash_encoding.h"
#include "tests/testing/cuda_test.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/reference/dense_layer.h"

namespace nerf::kernels {
namespace {

using reference::Matrix;

// Around a warp's 16 rows and a block's 128.
constexpr uint32_t kNgpMlpSizes[] = {0, 1, 15, 16, 17, 127, 128, 129, 500};
constexpr uint32_t kRays = 7, kTerms = 3;

// Errors relative to the largest value of their kind: fp32 sums of up to 64 terms through five
// layers, and rounding of every activation and gradient to 11 bits.
template <typename T>
constexpr double kTolerance = sizeof(T) == 2 ? 0.02 : 2e-5;
// For half precision's gradients, relative to the norm of all of them: a unit within rounding of
// zero may be active on one side and inactive on the other.
constexpr double kHalfGradientError = 0.06;

Matrix Layer(const std::vector<double>& weights, int layer) {
  const NgpLayer& l = kNgpLayers[layer];
  Matrix matrix(l.n_in, l.n_out);
  for (size_t i = 0; i < matrix.values.size(); ++i) matrix.values[i] = weights[l.offset + i];
  return matrix;
}

// `matrix`, zero where `gate` is not positive.
Matrix Gated(Matrix matrix, const Matrix& gate) {
  for (size_t i = 0; i < matrix.values.size(); ++i)
    if (gate.values[i] <= 0) matrix.values[i] = 0;
  return matrix;
}

// A batch of samples with all inputs of the kernels, as values of T, and the field in double
// precision on the same values.
template <typename T>
struct Batch {
  explicit Batch(uint32_t n, bool has_terms = false)
      : n(n), n_slots(n + 9), stride(n + 13), has_terms(has_terms) {
    std::vector<float> host_weights = RandomFloats(kNgpWeights, -0.4f, 0.4f, 1);
    for (int row = 0; row < 64; ++row)
      for (int column = 3; column < 16; ++column)
        host_weights[kNgpLayers[kColorOutput].offset + 16 * row + column] = 0;
    weights = Narrow<T>(host_weights);
    encodings = Narrow<T>(RandomFloats(size_t{32} * stride, -1, 1, 2));
    harmonics = Narrow<T>(RandomFloats(16 * kRays, -1, 1, 3));
    rows.resize(n);
    ray_of.resize(n_slots);
    for (uint32_t k = 0; k < n; ++k) rows[k] = (k * 5 + 3) % n_slots;
    if (n_slots % 5 == 0)
      for (uint32_t k = 0; k < n; ++k) rows[k] = k + 2;
    for (uint32_t i = 0; i < n_slots; ++i) ray_of[i] = i % kRays;
    grads = RandomFloats(size_t{4} * n, -1, 1, 4);
    terms = RandomFloats(64 * kTerms, -1, 1, 6);
    for (uint32_t r = 0; r < kRays; ++r) term_of.push_back(static_cast<int32_t>(r * 2 % kTerms));
  }

  // Of kept sample k.
  uint32_t TermOf(uint32_t k) const { return static_cast<uint32_t>(term_of[ray_of[rows[k]]]); }

  // [n] rows of the encodings of slots row_of(i).
  template <typename RowOf>
  Matrix Encodings(RowOf row_of) const {
    Matrix matrix(static_cast<int>(n), 32);
    for (uint32_t i = 0; i < n; ++i)
      for (int l = 0; l < 16; ++l)
        for (int f = 0; f < 2; ++f)
          matrix.at(i, 2 * l + f) = Widened(encodings[(l * stride + row_of(i)) * 2 + f]);
    return matrix;
  }

  uint32_t n, n_slots, stride;
  bool has_terms;  // that rays add to a layer, `terms` [kTerms][64]
  std::vector<float> terms;
  std::vector<int32_t> term_of;  // of rays
  std::vector<T> weights, encodings, harmonics;
  std::vector<uint32_t> rows, ray_of;
  std::vector<float> grads;
};

// Activations of both MLPs for the kept samples.
struct Forward {
  template <typename T>
  explicit Forward(const Batch<T>& batch)
      : weights(Wide(batch.weights)),
        encodings(batch.Encodings([&](uint32_t k) { return batch.rows[k]; })),
        hidden(reference::DenseForward(encodings, Layer(weights, 0), true)),
        geometry(reference::DenseForward(hidden, Layer(weights, 1), false)),
        inputs(static_cast<int>(batch.n), 32),
        hidden0(0, 64),
        hidden1(0, 64),
        outputs(0, 16) {
    for (uint32_t k = 0; k < batch.n; ++k) {
      for (int j = 0; j < 16; ++j) {
        inputs.at(k, j) = Widened(batch.harmonics[16 * batch.ray_of[batch.rows[k]] + j]);
        inputs.at(k, 16 + j) = geometry.at(k, j);
      }
    }
    hidden0 = reference::DenseForward(inputs, Layer(weights, 2), false);
    for (uint32_t k = 0; k < batch.n; ++k) {
      for (int j = 0; j < 64; ++j) {
        double& unit = hidden0.at(k, j);
        if (batch.has_terms) unit += batch.terms[64 * batch.TermOf(k) + j];
        unit = std::max(unit, 0.0);
      }
    }
    hidden1 = reference::DenseForward(hidden0, Layer(weights, 3), true);
    outputs = reference::DenseForward(hidden1, Layer(weights, 4), false);
  }
  std::vector<double> weights;
  Matrix encodings, hidden, geometry, inputs, hidden0, hidden1, outputs;
};

double Largest(const std::vector<double>& values) {
  double largest = 1e-3;
  for (double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

// Compares element by element in fp32, by the norm of the difference in half precision.
template <typename T>
void ExpectGradients(uint32_t n, const std::vector<double>& found,
                     const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  const double tolerance = kTolerance<T> * Largest(expected);
  double squared_error = 0, squared = 1e-12;
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_TRUE(std::isfinite(found[i]));
    if (sizeof(T) == 4) {
      ASSERT_NEAR(found[i], expected[i], tolerance) << i;
    }
    squared_error += (found[i] - expected[i]) * (found[i] - expected[i]);
    squared += expected[i] * expected[i];
  }
  // Of few samples one such unit is a larger part.
  EXPECT_LT(std::sqrt(squared_error / squared),
            n < 100 ? 2 * kHalfGradientError : kHalfGradientError);
}

class CudaNgpMlpTest : public CudaTest {
 protected:
  template <typename T>
  void ExpectDensityAgrees() {
    for (uint32_t n : kNgpMlpSizes) {
      const Batch<T> batch(n);
      const Matrix encodings = batch.Encodings([](uint32_t i) { return i; });
      const std::vector<double> wide = Wide(batch.weights);
      const Matrix geometry = reference::DenseForward(
          reference::DenseForward(encodings, Layer(wide, 0), true), Layer(wide, 1), false);
      const DeviceArray<T> weights(batch.weights), device_encodings(batch.encodings);
      const std::vector<float> host_deltas = RandomFloats(n, 1e-3f, 0.1f, 5);
      const DeviceArray<float> deltas(host_deltas);
      std::vector<uint32_t> host_cells(n);
      for (uint32_t i = 0; i < n; ++i) host_cells[i] = i % 10;
      const DeviceArray<uint32_t> cells(host_cells);
      DeviceArray<float> sigmas(n), alphas(n), values(std::vector<float>(10, 0.2f));
      DeviceArray<T> device_geometry(size_t{16} * n);
      cuda::NgpDensity(cuda::NgpDensityParams<T>{.range = {n},
                                                 .weights = weights.data(),
                                                 .encodings = device_encodings.data(),
                                                 .stride = batch.stride,
                                                 .shift = 1,
                                                 .deltas = deltas.data(),
                                                 .sigmas = sigmas.data(),
                                                 .alphas = alphas.data(),
                                                 .geometry = device_geometry.data(),
                                                 .cells = cells.data(),
                                                 .step_length = 0.5f,
                                                 .values = values.data()},
                       stream_);
      const auto found = Wide(device_geometry.Download(stream_));
      const auto found_sigmas = sigmas.Download(stream_), found_alphas = alphas.Download(stream_);
      const double tolerance = kTolerance<T> * Largest(geometry.values);
      std::vector<float> raised(10, 0.2f);
      for (uint32_t i = 0; i < n; ++i) {
        for (int j = 0; j < 16; ++j)
          ASSERT_NEAR(found[16 * i + j], geometry.at(i, j), tolerance) << n << ", " << i;
        const double sigma = std::exp(geometry.at(i, 0) - 1);
        ASSERT_NEAR(found_sigmas[i], sigma, 2 * tolerance * sigma) << i;
        ASSERT_NEAR(found_alphas[i], AlphaFromDensity(found_sigmas[i], host_deltas[i]), 1e-6) << i;
        raised[i % 10] = std::max(raised[i % 10], found_sigmas[i] * 0.5f);
      }
      EXPECT_EQ(values.Download(stream_), raised);
    }
  }

  template <typename T>
  void ExpectColorAgrees(bool has_terms = false) {
    for (uint32_t n : kNgpMlpSizes) {
      const Batch<T> batch(n, has_terms);
      const DeviceArray<float> terms(batch.terms);
      const DeviceArray<int32_t> term_of(batch.term_of);
      const cuda::NgpRayTerms ray_terms{has_terms ? terms.data() : nullptr, term_of.data()};
      const Forward forward(batch);
      // The outputs of the density pass.
      std::vector<float> host_geometry(size_t{16} * batch.n_slots, NAN);
      for (uint32_t k = 0; k < n; ++k)
        for (int j = 0; j < 16; ++j)
          host_geometry[16 * batch.rows[k] + j] = static_cast<float>(forward.geometry.at(k, j));
      const DeviceArray<T> weights(batch.weights), harmonics(batch.harmonics),
          geometry(Narrow<T>(host_geometry));
      const DeviceArray<uint32_t> rows(batch.rows), ray_of(batch.ray_of);
      DeviceArray<Vec3> colors(n);
      cuda::NgpColor(cuda::NgpColorParams<T>{.range = {n},
                                             .weights = weights.data(),
                                             .rows = rows.data(),
                                             .ray_of = ray_of.data(),
                                             .harmonics = harmonics.data(),
                                             .geometry = geometry.data(),
                                             .colors = colors.data(),
                                             .terms = ray_terms},
                     stream_);
      const auto found = colors.Download(stream_);
      for (uint32_t k = 0; k < n; ++k) {
        for (int c = 0; c < 3; ++c) {
          const double expected = 1 / (1 + std::exp(-forward.outputs.at(k, c)));
          ASSERT_NEAR(found[k][c], expected, kTolerance<T> / 2) << n << ", " << k;
        }
      }
      // The same samples without `rows`.
      std::vector<float> listed_geometry(16 * size_t{n});
      std::vector<uint32_t> listed_rays(n);
      for (uint32_t k = 0; k < n; ++k) {
        std::copy_n(host_geometry.begin() + 16 * batch.rows[k], 16,
                    listed_geometry.begin() + 16 * k);
        listed_rays[k] = batch.ray_of[batch.rows[k]];
      }
      const DeviceArray<T> listed(Narrow<T>(listed_geometry));
      const DeviceArray<uint32_t> rays(listed_rays);
      cuda::NgpColor(cuda::NgpColorParams<T>{.range = {n},
                                             .weights = weights.data(),
                                             .ray_of = rays.data(),
                                             .harmonics = harmonics.data(),
                                             .geometry = listed.data(),
                                             .colors = colors.data(),
                                             .terms = ray_terms},
                     stream_);
      EXPECT_EQ(colors.Download(stream_), found) << "without rows";
    }
  }

  // The device's weight gradients, summed over the blocks, and encodings' gradients.
  struct Gradients {
    std::vector<double> weights;
    std::vector<float> weight_parts, encodings;
    std::vector<int64_t> terms;
  };
  template <typename T>
  Gradients Backward(const Batch<T>& batch) {
    const int n_blocks = cuda::NgpBackwardBlocks<T>();
    const DeviceArray<T> weights(batch.weights), harmonics(batch.harmonics),
        encodings(batch.encodings);
    const DeviceArray<uint32_t> rows(batch.rows), ray_of(batch.ray_of);
    const DeviceArray<float> grads(batch.grads);
    const DeviceArray<float> terms(batch.terms);
    const DeviceArray<int32_t> term_of(batch.term_of);
    DeviceArray<int64_t> grad_terms(std::vector<int64_t>(64 * kTerms, int64_t{1} << 32));
    DeviceArray<float> grad_encodings(size_t{32} * batch.stride),
        weight_gradients(size_t{kNgpWeights} * n_blocks);
    cuda::NgpBackward(cuda::NgpBackwardParams<T>{.range = {batch.n},
                                                 .n_blocks = n_blocks,
                                                 .weights = weights.data(),
                                                 .rows = rows.data(),
                                                 .ray_of = ray_of.data(),
                                                 .harmonics = harmonics.data(),
                                                 .encodings = encodings.data(),
                                                 .stride = batch.stride,
                                                 .grads = grads.data(),
                                                 .grad_encodings = grad_encodings.data(),
                                                 .grad_stride = batch.stride,
                                                 .weight_gradients = weight_gradients.data(),
                                                 .terms = {batch.has_terms ? terms.data() : nullptr,
                                                           term_of.data()},
                                                 .grad_terms = grad_terms.data()},
                      stream_);
    Gradients result;
    result.encodings = grad_encodings.Download(stream_);
    result.terms = grad_terms.Download(stream_);
    result.weight_parts = weight_gradients.Download(stream_);
    result.weights.resize(kNgpWeights);
    for (size_t i = 0; i < result.weight_parts.size(); ++i)
      result.weights[i % kNgpWeights] += result.weight_parts[i];
    return result;
  }

  template <typename T>
  void ExpectBackwardAgrees(bool has_terms = false) {
    for (uint32_t n : kNgpMlpSizes) {
      const Batch<T> batch(n, has_terms);
      const Forward f(batch);
      Matrix grad_outputs(static_cast<int>(n), 16);
      for (uint32_t k = 0; k < n; ++k)
        for (int c = 0; c < 3; ++c) grad_outputs.at(k, c) = batch.grads[4 * k + c];
      const auto to_inputs = [&](const Matrix& grads, int layer) {
        return reference::DenseBackwardInputs(grads, Layer(f.weights, layer));
      };
      const Matrix grad_hidden1 = Gated(to_inputs(grad_outputs, 4), f.hidden1);
      const Matrix grad_hidden0 = Gated(to_inputs(grad_hidden1, 3), f.hidden0);
      const Matrix grad_inputs = to_inputs(grad_hidden0, 2);
      Matrix grad_geometry(static_cast<int>(n), 16);
      for (uint32_t k = 0; k < n; ++k) {
        for (int j = 0; j < 16; ++j) grad_geometry.at(k, j) = grad_inputs.at(k, 16 + j);
        grad_geometry.at(k, 0) += batch.grads[4 * k + 3];
      }
      const Matrix grad_hidden = Gated(to_inputs(grad_geometry, 1), f.hidden);
      const Matrix grad_encodings = to_inputs(grad_hidden, 0);

      const Gradients found = Backward(batch);
      SCOPED_TRACE(n);
      std::vector<double> found_encodings;
      for (uint32_t k = 0; k < n; ++k)
        for (int j = 0; j < 32; ++j)
          found_encodings.push_back(found.encodings[(j / 2 * batch.stride + k) * 2 + j % 2]);
      ExpectGradients<T>(n, found_encodings, grad_encodings.values);
      std::vector<double> grad_terms(64 * kTerms, 1), found_terms;  // added to what was there
      for (uint32_t k = 0; k < n && has_terms; ++k)
        for (int j = 0; j < 64; ++j) grad_terms[64 * batch.TermOf(k) + j] += grad_hidden0.at(k, j);
      for (const int64_t sum : found.terms)
        found_terms.push_back(static_cast<double>(sum) / cuda::kFixedPointOne);
      ExpectGradients<T>(n, found_terms, grad_terms);
      const std::pair<const Matrix*, const Matrix*> layers[] = {{&f.encodings, &grad_hidden},
                                                                {&f.hidden, &grad_geometry},
                                                                {&f.inputs, &grad_hidden0},
                                                                {&f.hidden0, &grad_hidden1},
                                                                {&f.hidden1, &grad_outputs}};
      for (int l = 0; l < 5; ++l) {
        const Matrix expected =
            reference::DenseBackwardWeights(*layers[l].first, *layers[l].second);
        const auto begin = found.weights.begin() + kNgpLayers[l].offset;
        SCOPED_TRACE(l);
        ExpectGradients<T>(n, {begin, begin + static_cast<ptrdiff_t>(expected.values.size())},
                           expected.values);
      }
    }
  }
};
NERF_INSTANTIATE_CUDA_PLACES(CudaNgpMlpTest);

TEST_P(CudaNgpMlpTest, DensityAgreesWithTheReferenceForAllSizes) { ExpectDensityAgrees<float>(); }
TEST_P(CudaNgpMlpTest, DensityInHalfPrecisionAgreesToItsRounding) { ExpectDensityAgrees<Half>(); }
TEST_P(CudaNgpMlpTest, ColorAgreesWithTheReferenceForAllSizes) { ExpectColorAgrees<float>(); }
TEST_P(CudaNgpMlpTest, ColorInHalfPrecisionAgreesToItsRounding) { ExpectColorAgrees<Half>(); }
TEST_P(CudaNgpMlpTest, BackwardAgreesWithTheReferenceForAllSizes) { ExpectBackwardAgrees<float>(); }
TEST_P(CudaNgpMlpTest, BackwardInHalfPrecisionAgreesToItsRounding) { ExpectBackwardAgrees<Half>(); }

TEST_P(CudaNgpMlpTest, TermsOfRaysAgreeWithTheReferenceForAllSizes) {
  ExpectColorAgrees<float>(true);
  ExpectBackwardAgrees<float>(true);
}
TEST_P(CudaNgpMlpTest, TermsOfRaysInHalfPrecisionAgreeToItsRounding) {
  ExpectColorAgrees<Half>(true);
  ExpectBackwardAgrees<Half>(true);
}

TEST_P(CudaNgpMlpTest, BackwardGivesTheSameBytesEachTime) {
  const Batch<Half> batch(500, true);
  const Gradients first = Backward(batch), second = Backward(batch);
  EXPECT_EQ(first.encodings, second.encodings);
  EXPECT_EQ(first.weight_parts, second.weight_parts);
  EXPECT_EQ(first.terms, second.terms);
}

TEST_P(CudaNgpMlpTest, GradientsBeyondHalfPrecisionAreClamped) {
  Batch<Half> batch(20);
  for (float& grad : batch.grads) grad *= 1e6f;
  for (float gradient : Backward(batch).encodings) ASSERT_TRUE(std::isfinite(gradient));
}

}  // namespace
}  // namespace nerf::kernels
