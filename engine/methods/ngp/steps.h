#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/base/parallel_for.h"
#include "engine/config/train_config.h"
#include "engine/scene/scene.h"
#include "engine/train/cuda_pictures.h"
#include "engine/train/training_step.h"

namespace nerf {

// The fused step of method `ngp` on the CPU. pool outlives it.
std::unique_ptr<TrainingStep> NewNgpCpuStep(const TrainConfig& config,
                                            const SceneGeometry& geometry, ThreadPool* pool);

// Samples that the largest step of a training keeps. The first one's rays go through a grid that is
// still open; later ones are steered to the target.
uint64_t MaxStepSamples(const TrainConfig& config);

// Bytes that such a step will allocate, for the estimate before the first allocation.
size_t NgpCpuStepBytes(const TrainConfig& config, const SceneGeometry& geometry, int n_threads);

// The same step on the CUDA device in use, in half precision or fp32 as the config says. Its bytes
// are those of equal states, batches and devices where the config asks for a deterministic one.
// Throws kernels::cuda::CudaOutOfMemory, and so does its Run, which updates no parameter then; both
// throw kernels::cuda::CudaError.
// source: null where rays come with the batches.
std::unique_ptr<TrainingStep> NewNgpCudaStep(const TrainConfig& config,
                                             const SceneGeometry& geometry,
                                             const RaySource* source = nullptr);

// FailedPrecondition where the device in use cannot train with this config.
absl::Status CheckNgpCudaTraining(const TrainConfig& config);

// Device memory of the CUDA step at the largest number of rays and samples that it may reach.
size_t NgpCudaStepBytes(const TrainConfig& config, const SceneGeometry& geometry);

// The field and grid of a model or checkpoint file of method `ngp`, trained with `config`. A
// checkpoint's evaluation weights are rounded as a model's are, so that both render the same bytes.
// Errors: InvalidArgument naming the tensor.
absl::StatusOr<TrainedModel> LoadNgpModel(const TensorFile& file, const TrainConfig& config,
                                          const SceneGeometry& geometry);

}  // namespace nerf
