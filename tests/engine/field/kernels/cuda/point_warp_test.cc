#include "engine/field/kernels/point_warp.h"

#include <algorithm>
#include <cmath>

#include "engine/base/probe_time.h"
#include "tests/testing/cuda_test.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/reference/point_warp.h"

namespace nerf::kernels {
namespace {

using reference::Matrix;

// Around a warp's 16 rows and a block's 128.
constexpr uint32_t kPointWarpSizes[] = {0, 1, 15, 16, 17, 129, 300};
constexpr uint32_t kWarpRays = 7;
constexpr float kViewTimes[] = {0, 0.3f, 1};

// Of moved points in the unit cube: fp32 sums, or 11 bits of inputs, weights and activations.
template <typename T>
constexpr double kPointTolerance = sizeof(T) == 2 ? 5e-3 : 2e-6;
// Of gradients, relative to the norm of a layer's: as those of ngp_mlp_test.cc.
template <typename T>
constexpr double kWeightTolerance = sizeof(T) == 2 ? 0.06 : 2e-5;

// Points at times, as the kernels have them, and the warp in double precision.
template <typename T>
struct WarpCase {
  explicit WarpCase(uint32_t n) : n(n), n_slots(n + 9) {
    std::vector<float> host = RandomFloats(kWarpWeights, -0.3f, 0.3f, 1);
    for (int row = 0; row < kWarpHiddenWidth; ++row)
      for (int column = 3; column < kWarpOutputWidth; ++column)
        host[kWarpLayers[2].offset + kWarpOutputWidth * row + column] = 0;
    weights = Narrow<T>(host);
    unit = RandomPoints(static_cast<int>(n_slots), 0, 1, 2);
    for (uint32_t i = 0; i < n_slots; ++i) ray_of.push_back(i * 3 % kWarpRays);
    for (uint32_t r = 0; r < kWarpRays; ++r) views.push_back(static_cast<int32_t>(r * 2 % 3));
    for (uint32_t k = 0; k < n; ++k) rows.push_back(n_slots - 1 - k);
  }
  float TimeOf(uint32_t slot) const { return kViewTimes[views[ray_of[slot]]]; }
  Matrix Layer(int i) const {
    const std::vector<double> wide = Wide(weights);
    return reference::WarpLayerWeights(wide.data(), i);
  }
  Vec3 Warped(uint32_t slot, float time) const {
    Matrix values = reference::WarpInputs(unit[slot], time);
    for (int i = 0; i < 3; ++i) values = DenseForward(values, Layer(i), i < 2);
    Vec3 warped;
    for (int axis = 0; axis < 3; ++axis) {
      warped[axis] =
          static_cast<float>(std::clamp(unit[slot][axis] + values.at(0, axis), 0.0, 1.0));
    }
    return warped;
  }

  uint32_t n, n_slots;
  std::vector<T> weights;
  std::vector<Vec3> unit;
  std::vector<uint32_t> ray_of, rows;
  std::vector<int32_t> views;
};

class CudaPointWarpTest : public CudaTest {
 protected:
  template <typename T>
  void ExpectPointsAreMoved() {
    for (const uint32_t n : kPointWarpSizes) {
      SCOPED_TRACE(n);
      const WarpCase<T> points(n);
      const DeviceArray<T> weights(points.weights);
      const DeviceArray<Vec3> unit(points.unit);
      const DeviceArray<uint32_t> ray_of(points.ray_of), counts({4u, n});
      const DeviceArray<int32_t> views(points.views);
      const DeviceArray<float> times({kViewTimes[0], kViewTimes[1], kViewTimes[2]});
      DeviceArray<Vec3> warped(points.unit.size());
      cuda::PointWarpParams<T> params{
          .range = {points.n_slots, counts.data(), 1},
          .weights = weights.data(),
          .times = {.times = times.data(), .views = views.data(), .ray_of = ray_of.data()},
          .unit = unit.data(),
          .warped = warped.data()};
      cuda::PointWarp(params, stream_);
      int n_held = 0;
      ExpectPoints(points, warped.Download(stream_), [&](uint32_t slot) {
        const Vec3 at = points.Warped(slot, points.TimeOf(slot));
        for (int axis = 0; axis < 3; ++axis) n_held += at[axis] == 0 || at[axis] == 1;
        return at;
      });
      if (n == 300) {
        EXPECT_GT(n_held, 10);
      }
      // At random times.
      params.times = {.seed = 5, .first = 0.25f, .last = 0.75f};
      cuda::PointWarp(params, stream_);
      ExpectPoints(points, warped.Download(stream_), [&](uint32_t slot) {
        return points.Warped(slot, 0.25f + 0.5f * ProbeTime(5, points.unit[slot]));
      });
      // In place, all at one time.
      DeviceArray<Vec3> in_place(points.unit);
      params.times = {.times = times.data() + 1};
      params.unit = in_place.data();
      params.warped = in_place.data();
      cuda::PointWarp(params, stream_);
      const std::vector<Vec3> found = in_place.Download(stream_);
      ExpectPoints(points, found, [&](uint32_t slot) { return points.Warped(slot, 0.3f); });
      for (const uint32_t slot : {0u, 3u, n + 4}) EXPECT_EQ(found[slot], points.unit[slot]) << slot;
    }
  }
  // Those of slots [4, 4 + n), which is the range.
  template <typename T, typename Expected>
  static void ExpectPoints(const WarpCase<T>& points, const std::vector<Vec3>& found,
                           const Expected& expected) {
    for (uint32_t slot = 4; slot < 4 + points.n; ++slot) {
      const Vec3 wanted = expected(slot);
      for (int axis = 0; axis < 3; ++axis)
        ASSERT_NEAR(found[slot][axis], wanted[axis], kPointTolerance<T>) << slot;
    }
  }

  template <typename T>
  void ExpectGradientsAreThoseOfTheReference() {
    for (const uint32_t n : kPointWarpSizes) {
      SCOPED_TRACE(n);
      const WarpCase<T> points(n);
      std::vector<Vec3> warped(points.n_slots);
      for (uint32_t slot = 0; slot < points.n_slots; ++slot)
        warped[slot] = points.Warped(slot, points.TimeOf(slot));
      const std::vector<Vec3> pulls = RandomPoints(static_cast<int>(n), -1, 1, 4);
      std::vector<double> expected[3];
      for (int i = 0; i < 3; ++i) expected[i].resize(points.Layer(i).values.size());
      for (uint32_t k = 0; k < n; ++k) {
        const uint32_t slot = points.rows[k];
        const Matrix inputs = reference::WarpInputs(points.unit[slot], points.TimeOf(slot));
        const Matrix hidden0 = DenseForward(inputs, points.Layer(0), true);
        const Matrix hidden1 = DenseForward(hidden0, points.Layer(1), true);
        Matrix grad(1, kWarpOutputWidth);
        for (int axis = 0; axis < 3; ++axis) {
          const float at = warped[slot][axis];
          grad.at(0, axis) = at > 0 && at < 1 ? pulls[k][axis] : 0;
        }
        AddTo(DenseBackwardWeights(hidden1, grad), &expected[2]);
        grad = Gated(DenseBackwardInputs(grad, points.Layer(2)), hidden1);
        AddTo(DenseBackwardWeights(hidden0, grad), &expected[1]);
        grad = Gated(DenseBackwardInputs(grad, points.Layer(1)), hidden0);
        AddTo(DenseBackwardWeights(inputs, grad), &expected[0]);
      }
      const std::vector<double> found = Gradients(points, warped, pulls);
      for (int i = 0; i < 3; ++i) {
        double error = 0, norm = 0;
        for (size_t w = 0; w < expected[i].size(); ++w) {
          const double difference = found[kWarpLayers[i].offset + w] - expected[i][w];
          error += difference * difference;
          norm += expected[i][w] * expected[i][w];
        }
        EXPECT_LE(std::sqrt(error), kWeightTolerance<T> * std::sqrt(norm)) << "layer " << i;
        if (n == 300) {
          EXPECT_GT(norm, 1);
        }
      }
    }
  }
  template <typename T>
  std::vector<double> Gradients(const WarpCase<T>& points, const std::vector<Vec3>& warped,
                                const std::vector<Vec3>& pulls) {
    const int n_blocks = cuda::PointWarpBackwardBlocks<T>();
    const DeviceArray<T> weights(points.weights);
    const DeviceArray<Vec3> unit(points.unit), device_warped(warped), device_pulls(pulls);
    const DeviceArray<uint32_t> ray_of(points.ray_of), rows(points.rows), counts({points.n});
    const DeviceArray<int32_t> views(points.views);
    const DeviceArray<float> times({kViewTimes[0], kViewTimes[1], kViewTimes[2]});
    DeviceArray<float> gradients(size_t{kWarpWeights} * n_blocks);
    cuda::PointWarpBackward(
        cuda::PointWarpBackwardParams<T>{
            .range = {points.n_slots, counts.data()},
            .n_blocks = n_blocks,
            .weights = weights.data(),
            .times = {.times = times.data(), .views = views.data(), .ray_of = ray_of.data()},
            .rows = rows.data(),
            .unit = unit.data(),
            .warped = device_warped.data(),
            .grad_warped = device_pulls.data(),
            .weight_gradients = gradients.data()},
        stream_);
    const std::vector<float> parts = gradients.Download(stream_);
    std::vector<double> sums(kWarpWeights);
    for (size_t i = 0; i < parts.size(); ++i) sums[i % kWarpWeights] += parts[i];
    return sums;
  }
  static void AddTo(const Matrix& gradients, std::vector<double>* sums) {
    for (size_t i = 0; i < sums->size(); ++i) (*sums)[i] += gradients.values[i];
  }
  // `matrix`, zero where `gate` is not positive.
  static Matrix Gated(Matrix matrix, const Matrix& gate) {
    for (size_t i = 0; i < matrix.values.size(); ++i)
      if (gate.values[i] <= 0) matrix.values[i] = 0;
    return matrix;
  }
};
NERF_INSTANTIATE_CUDA_PLACES(CudaPointWarpTest);

TEST_P(CudaPointWarpTest, PointsAreMovedAsByTheReferenceAtTimesOfEveryKind) {
  ExpectPointsAreMoved<float>();
  ExpectPointsAreMoved<Half>();
}

TEST_P(CudaPointWarpTest, GradientsAreThoseOfTheReferenceAndHeldCoordinatesCountNothing) {
  ExpectGradientsAreThoseOfTheReference<float>();
  ExpectGradientsAreThoseOfTheReference<Half>();
}

}  // namespace
}  // namespace nerf::kernels
