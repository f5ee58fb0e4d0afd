#include "engine/methods/autograd/checkpoint_op.h"

#include <torch/torch.h>

#include <algorithm>
#include <vector>

namespace nerf::autograd {
namespace {

class CheckpointFunction : public torch::autograd::Function<CheckpointFunction> {
 public:
  // anchor: requires a gradient, so that the result does; the leaves are hidden in `rows`.
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& anchor, const RowFunction* rows, int64_t n_rows,
                               int64_t chunk_rows) {
    (void)anchor;
    context->saved_data["rows"] = reinterpret_cast<int64_t>(rows);
    context->saved_data["chunk_rows"] = chunk_rows;
    std::vector<torch::Tensor> chunks;
    for (int64_t begin = 0; begin < n_rows; begin += chunk_rows)
      chunks.push_back((*rows)(begin, std::min(begin + chunk_rows, n_rows)));
    return torch::cat(chunks, 0);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto* rows = reinterpret_cast<const RowFunction*>(context->saved_data["rows"].toInt());
    const int64_t chunk_rows = context->saved_data["chunk_rows"].toInt();
    const torch::Tensor& gradient = gradients[0];
    const torch::AutoGradMode with_gradients(true);
    for (int64_t begin = 0; begin < gradient.size(0); begin += chunk_rows) {
      const int64_t end = std::min(begin + chunk_rows, gradient.size(0));
      (*rows)(begin, end).backward(gradient.slice(0, begin, end));
    }
    return torch::autograd::variable_list(4);  // none by the arguments of forward
  }
};

}  // namespace

torch::Tensor Checkpointed(const RowFunction& rows, int64_t n_rows, int64_t chunk_rows) {
  TORCH_CHECK(n_rows > 0 && chunk_rows > 0, "Checkpointed: ", n_rows, " rows in chunks of ",
              chunk_rows);
  const torch::Tensor anchor = torch::zeros({1}).requires_grad_(true);
  return CheckpointFunction::apply(anchor, &rows, n_rows, chunk_rows);
}

}  // namespace nerf::autograd
