#include "engine/methods/autograd/dense_layers_op.h"

#include "tests/testing/gradcheck.h"
#include "tests/testing/reference/dense_layer.h"

namespace nerf::autograd {
namespace {

reference::Matrix ToMatrix(const torch::Tensor& t) {
  reference::Matrix m(static_cast<int>(t.size(0)), static_cast<int>(t.size(1)));
  std::copy_n(t.data_ptr<double>(), t.numel(), m.values.begin());
  return m;
}

TEST(DenseLayersOpTest, AgreesWithTheReference) {
  const torch::Tensor inputs = RandomTensor({5, 4}, -1, 1, 1),
                      first = RandomTensor({4, 6}, -1, 1, 2),
                      second = RandomTensor({6, 3}, -1, 1, 3);
  const reference::Matrix expected = reference::DenseForward(
      reference::DenseForward(ToMatrix(inputs), ToMatrix(first), true), ToMatrix(second), false);
  const torch::Tensor outputs = DenseLayers(inputs, {first, second}).contiguous();
  for (int64_t i = 0; i < outputs.numel(); ++i)
    EXPECT_NEAR(outputs.data_ptr<double>()[i], expected.values[i], 1e-14);
}

TEST(DenseLayersOpTest, GradientsMatchDifferences) {
  ExpectGradientsMatchDifferences(
      [](const std::vector<torch::Tensor>& in) {
        return DenseLayers(in[0], {in[1], in[2], in[3]});
      },
      {RandomTensor({5, 4}, -1, 1, 1), RandomTensor({4, 6}, -1, 1, 2),
       RandomTensor({6, 6}, -1, 1, 3), RandomTensor({6, 3}, -1, 1, 4)});
}

}  // namespace
}  // namespace nerf::autograd
