#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/config/train_config.h"
#include "engine/field/files/tensor_file.h"

namespace nerf {

// A coarse and a fine network that other software trained.
struct ImportedMlp {
  TrainConfig config;  // sizes of the networks, samples, near and far
  TensorFile model;    // the tensors of a model file, in fp32
};

// From the tensors of a checkpoint of krrish94/nerf-pytorch (ReadTorchFile), trained on a
// Blender scene: model_coarse_state_dict.* and model_fine_state_dict.*. Its first layer has no
// activation, so it is multiplied into the second; its feature layer has a ReLU. Errors:
// InvalidArgument naming the tensor.
absl::StatusOr<ImportedMlp> ImportNerfPytorch(const std::map<std::string, Tensor>& tensors);

}  // namespace nerf
