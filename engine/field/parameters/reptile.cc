#include "engine/field/parameters/reptile.h"

#include <map>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "common/status_macros.h"
#include "engine/base/philox.h"
#include "engine/field/parameters/dense_parameters.h"
#include "engine/field/parameters/start_scope.h"
#include "fmt/format.h"

namespace nerf {

double ReptileRate(double rate, int i, int n) {
  return i == 0 ? 1 : rate * (1 - static_cast<double>(i) / n);
}

int ReptileScene(uint32_t seed, int i, int n_scenes) {
  std::vector<int> order(static_cast<size_t>(n_scenes));
  std::iota(order.begin(), order.end(), 0);
  // Counted from the end: the first streams of kInit are those of the parameters.
  const uint32_t stream = UINT32_MAX - static_cast<uint32_t>(i / n_scenes);
  for (size_t left = order.size(); left > 1; --left) {
    const auto words = RandomWords(seed, RandomUse::kInit, stream, static_cast<uint32_t>(left));
    std::swap(order[left - 1], order[UniformIndex(words[0], static_cast<uint32_t>(left))]);
  }
  return order[static_cast<size_t>(i % n_scenes)];
}

namespace {

// Values of other tensors mean another thing after each training, as which bricks are stored.
absl::Status CheckShared(const TensorFile& trained, const std::vector<TensorShape>& tensors) {
  const auto refused = [](std::string_view name) {
    return absl::InvalidArgumentError(
        fmt::format("tensor {} cannot be averaged over scenes", name));
  };
  std::set<std::string_view> names;
  for (const TensorShape& tensor : tensors) {
    if (!IsInScope(StartScope::kField, tensor.name)) return refused(tensor.name);
    names.insert(tensor.name);
  }
  for (const auto& [name, tensor] : trained.tensors) {
    if (IsInScope(StartScope::kField, name) && !names.contains(name)) return refused(name);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MoveTowards(const TensorFile& trained, const std::vector<TensorShape>& tensors,
                         double rate, TensorFile* theta) {
  NERF_RETURN_IF_ERROR(CheckShared(trained, tensors));
  std::map<std::string, Tensor> moved;
  for (const TensorShape& tensor : tensors) {
    NERF_ASSIGN_OR_RETURN(std::vector<float> values,
                          ReadFloats(trained, tensor.name, tensor.shape));
    if (theta->tensors.contains(tensor.name)) {
      NERF_ASSIGN_OR_RETURN(const std::vector<float> from,
                            ReadFloats(*theta, tensor.name, tensor.shape));
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(from[i] + rate * (double{values[i]} - from[i]));
    }
    moved[tensor.name] = TensorFromFloats(values.data(), tensor.shape, DType::kF32);
  }
  for (auto& [name, tensor] : moved) theta->tensors[name] = std::move(tensor);
  return absl::OkStatus();
}

}  // namespace nerf
