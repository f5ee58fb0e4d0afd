#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/config/tensor_shape.h"
#include "engine/field/files/tensor_file.h"

namespace nerf {

// What a training takes from the model that it starts from.
enum class StartScope {
  kAll,       // the field and its occupancy grid
  kField,     // the field alone: every cell is open at first
  kMlp,       // the layers of its MLPs; the hash table starts from scratch
  kOccupancy  // the occupancy grid alone
};

// "all", "field", "mlp", "occupancy".
std::string_view StartScopeName(StartScope scope);
// Errors: InvalidArgument that lists the names.
absl::StatusOr<StartScope> ParseStartScope(std::string_view name);

// Whether a tensor of a model or checkpoint belongs to it. Optimizer state belongs to none.
bool IsInScope(StartScope scope, std::string_view tensor);

// Checks that `start` has those of the tensors of `wanted` that are in the scope, and for
// kOccupancy that its grid is like that of `fresh`, the state of a new training. Errors:
// InvalidArgument naming the first tensor that is missing or of a shape that does not fit, or that
// nothing is in the scope.
absl::Status CheckScopeFits(StartScope scope, const std::vector<TensorShape>& wanted,
                            const TensorFile& start, const TensorFile& fresh);

// What to initialize a training from: `start` or, where the scope is not all of it, `fresh` with
// the tensors of the scope replaced by those of `start`. Requires: CheckScopeFits is OK.
TensorFile TakeScope(StartScope scope, TensorFile start, TensorFile fresh);

}  // namespace nerf
