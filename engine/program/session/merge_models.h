#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/field/files/tensor_file.h"

namespace nerf {

// The contents of one model of those that trainings of its parts have written
// (MethodDescription::Parts), in any order. Errors: those of ReadTensorFile and Method::Merge;
// InvalidArgument naming the file that is no model.
absl::StatusOr<TensorFile> MergeModels(const std::vector<std::string>& paths);

}  // namespace nerf
