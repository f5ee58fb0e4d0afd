#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/config/train_config.h"
#include "engine/field/files/tensor_file.h"
#include "engine/field/occupancy_grid.h"
#include "engine/field/parameters/dense_parameters.h"
#include "engine/field/trained_model.h"
#include "engine/methods/dynamic/time_range.h"
#include "engine/methods/ngp/parameters.h"
#include "engine/scene/scene.h"

namespace nerf {

// The warp's weights as files name them, in the layout of kWarpLayers.
std::vector<ParameterBlock> WarpBlocks();

// Sets the weights by Glorot and Bengio 2010, but for the last layer, which stays zero: at first
// nothing is moved.
void InitializeWarp(uint64_t seed, DenseParameters* warp);

// A trained field as a model. warp_weights [kWarpWeights].
std::unique_ptr<TrainedModel> NewDynamicModel(const TrainConfig& config,
                                              const SceneGeometry& geometry,
                                              NgpEvaluationParameters ngp,
                                              Buffer<float> warp_weights, TimeRange times,
                                              OccupancyGrid grid);

// The model in a model or checkpoint file. Errors: InvalidArgument naming the tensor.
absl::StatusOr<std::unique_ptr<TrainedModel>> LoadDynamicModel(const TensorFile& file,
                                                               const TrainConfig& config,
                                                               const SceneGeometry& geometry);

}  // namespace nerf
