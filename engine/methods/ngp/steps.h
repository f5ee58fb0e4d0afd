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

// Most samples that a step of a training keeps. The first step's rays meet a fully occupied grid;
// later steps have about target_samples.
uint64_t MaxStepSamples(const TrainConfig& config);

// Bytes that the CPU step allocates, for a check before the first allocation.
size_t NgpCpuStepBytes(const TrainConfig& config, const SceneGeometry& geometry, int n_threads);

// The same step on the CUDA device in use, in half precision or fp32 as the config says. With
// cuda_deterministic equal states, batches and devices give equal bytes. This and Run throw
// kernels::cuda::CudaOutOfMemory (Run then updates no parameter) and kernels::cuda::CudaError.
// source: null if batches bring their rays.
std::unique_ptr<TrainingStep> NewNgpCudaStep(const TrainConfig& config,
                                             const SceneGeometry& geometry,
                                             const RaySource* source = nullptr);

// FailedPrecondition if the device in use cannot train with this config.
absl::Status CheckNgpCudaTraining(const TrainConfig& config);

// Device memory of the CUDA step at the largest number of rays and samples that it may reach.
size_t NgpCudaStepBytes(const TrainConfig& config, const SceneGeometry& geometry);

// The field and grid of a model or checkpoint file of method `ngp`, trained with `config`. A
// checkpoint's evaluation weights are rounded as a model's are, so that both render the same bytes.
// Errors: InvalidArgument naming the tensor.
absl::StatusOr<TrainedModel> LoadNgpModel(const TensorFile& file, const TrainConfig& config,
                                          const SceneGeometry& geometry);

}  // namespace nerf
