#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "engine/base/parallel_for.h"
#include "engine/config/train_config.h"
#include "engine/scene/scene.h"
#include "engine/train/training_step.h"

namespace nerf {

// The fused step of method `ngp` on the CPU. pool outlives it.
std::unique_ptr<TrainingStep> NewFusedHashGridStep(const TrainConfig& config,
                                                   const SceneGeometry& geometry, ThreadPool* pool);

// Samples that the largest step of a training keeps. The first one's rays go through a grid that is
// still open; later ones are steered to the target.
uint64_t MaxStepSamples(const TrainConfig& config);

// Bytes that such a step will allocate, for the estimate before the first allocation.
size_t FusedHashGridStepBytes(const TrainConfig& config, const SceneGeometry& geometry,
                              int n_threads);

// Where the pictures lie that a device draws its rays from: in its own memory, or in page-locked
// memory of the host, where it reads the few pixels that a step takes over the bus.
enum class PictureMemory { kDevice, kHost };

// What a device draws its rays from, as RaySampler takes it. Copied to `place`.
struct RaySource {
  std::span<const View> views;
  Background background = Background::kBlack;
  float near = 0;
  PictureMemory place = PictureMemory::kDevice;
};

// The same step on the CUDA device in use, in half precision or fp32 as the config says. Its bytes
// are those of equal states, batches and devices where the config asks for a deterministic one.
// Throws kernels::cuda::CudaOutOfMemory, and so does its Run, which updates no parameter then; both
// throw kernels::cuda::CudaError.
// source: null where rays come with the batches.
std::unique_ptr<TrainingStep> NewCudaHashGridStep(const TrainConfig& config,
                                                  const SceneGeometry& geometry,
                                                  const RaySource* source = nullptr);

// FailedPrecondition where the device in use cannot train with this config.
absl::Status CheckCudaTraining(const TrainConfig& config);

// Device memory that it takes when it has grown to what the ray count's controller allows.
size_t CudaHashGridStepBytes(const TrainConfig& config, const SceneGeometry& geometry);
// And what a source adds to it.
size_t CudaRaySourceBytes(const RaySource& source);
// Where a source's pictures have room, the device first; nullopt where they have none and the host
// has to draw the rays. device_free: bytes that are left beside the step. host_free: as
// AvailableMemoryBytes tells them; nullopt where it cannot.
std::optional<PictureMemory> ChoosePictureMemory(const RaySource& source, size_t device_free,
                                                 std::optional<uint64_t> host_free);

// The field and grid of a model or checkpoint file of method `ngp`, trained with `config`. A
// checkpoint's evaluation weights are rounded as a model's are, so that both render the same bytes.
// Errors: InvalidArgument naming the tensor.
absl::StatusOr<TrainedModel> LoadNgpModel(const TensorFile& file, const TrainConfig& config,
                                          const SceneGeometry& geometry);

}  // namespace nerf
