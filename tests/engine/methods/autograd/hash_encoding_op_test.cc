#include "engine/methods/autograd/hash_encoding_op.h"

#include "tests/testing/gradcheck.h"
#include "tests/testing/reference/hash_encoding.h"

namespace nerf::autograd {
namespace {

// Small enough that each entry's gradient can be checked: 2^6 entries, the first level dense.
kernels::HashGridShape Shape() { return kernels::MakeHashGridShape(3, 2, 6, 2, 20); }

torch::Tensor Points(const std::vector<Vec3>& points) {
  torch::Tensor tensor = torch::empty({static_cast<int64_t>(points.size()), 3}, torch::kFloat64);
  for (size_t i = 0; i < points.size(); ++i) {
    for (int axis = 0; axis < 3; ++axis) tensor.data_ptr<double>()[3 * i + axis] = points[i][axis];
  }
  return tensor;
}

TEST(HashEncodingOpTest, AgreesWithTheReference) {
  ASSERT_TRUE(Shape().IsDense(0));
  ASSERT_FALSE(Shape().IsDense(1));
  std::vector<Vec3> points = RandomPoints(20, -0.2f, 1.2f, 1);
  points.insert(points.end(), {{0, 0, 0}, {1, 1, 1}, {0.5f, 0, 1}});
  const torch::Tensor table = RandomTensor({3, 64, 2}, -1, 1, 2);
  const torch::Tensor features = HashEncode(Shape(), table, Points(points)).contiguous();
  const std::vector<double> expected = reference::HashEncodeForward(
      Shape(), {table.data_ptr<double>(), static_cast<size_t>(table.numel())}, points);
  ASSERT_EQ(features.numel(), static_cast<int64_t>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(features.data_ptr<double>()[i], expected[i], 1e-14) << i;
}

TEST(HashEncodingOpTest, GradientsByTableAndPositionsMatchDifferences) {
  ExpectGradientsMatchDifferences(
      [](const std::vector<torch::Tensor>& in) { return HashEncode(Shape(), in[0], in[1]); },
      {RandomTensor({3, 64, 2}, -1, 1, 2), Points(RandomPoints(6, 0, 1, 3))});
}

TEST(HashEncodingOpTest, WrongTableIsNamed) {
  try {
    HashEncode(Shape(), torch::zeros({3, 32, 2}), torch::zeros({1, 3}));
    FAIL() << "no error";
  } catch (const c10::Error& e) {
    EXPECT_NE(std::string(e.what()).find("table is [3, 32, 2]"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace nerf::autograd
