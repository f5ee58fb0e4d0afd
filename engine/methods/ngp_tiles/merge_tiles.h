#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "engine/field/files/tensor_file.h"
#include "engine/train/method.h"

namespace nerf {

// Method::Merge of models that were trained with one tile each: the file that one training of all
// tiles writes, where the budget is in steps. Errors: InvalidArgument naming the file and what
// makes it no part of that model, or the tile that is missing.
absl::StatusOr<TensorFile> MergeTiles(std::vector<ModelPart> parts);

}  // namespace nerf
