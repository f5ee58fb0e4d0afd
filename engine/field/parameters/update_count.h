#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/field/files/tensor_file.h"

namespace nerf {

// How many updates of its optimizer a step has made, in the metadata of its checkpoints.
void SaveUpdateCount(uint32_t n_updates, TensorFile* file);
// Errors: InvalidArgument where it is missing or not a number.
absl::StatusOr<uint32_t> LoadUpdateCount(const TensorFile& file);

}  // namespace nerf
