#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "engine/base/config/train_config.h"
#include "engine/base/parallel_for.h"
#include "engine/methods/ngp/cuda_warp.h"
#include "engine/methods/ngp/depth_rays.h"
#include "engine/scene/scene.h"
#include "engine/train/batch/cuda_pictures.h"
#include "engine/train/group/group.h"
#include "engine/train/ray_step.h"

namespace nerf {

// The fused step of method ngp on the CPU. views: those that pixels are drawn from (none: only
// RunRays may be called). pool and group outlive the step. With a group its ranks train together
// the bytes that one would train alone; Run and CollectState then throw GroupError. depths:
// learned where the config says so; they outlive the step.
std::unique_ptr<RayStep> NewNgpCpuStep(const TrainConfig& config, const SceneGeometry& geometry,
                                       ThreadPool* pool, std::span<const View> views = {},
                                       Group* group = nullptr, const KnownDepths& depths = {});

// The same step on the CUDA device in use, in half precision or fp32 as the config says. With
// cuda_deterministic equal states, batches and devices give equal bytes. This and Run throw
// kernels::cuda::CudaOutOfMemory (Run then updates no parameter) and kernels::cuda::CudaError.
// source: what the device draws its rays from. If null, the host draws pixels from `views` and
// makes their rays on `pool`, which outlives the step. With a group, which outlives the step, its
// ranks train together, each on its device; with cuda_deterministic they train the bytes that one
// would train alone. Run and CollectState then throw GroupError. depths: as on the CPU. With a
// warp, which no group trains, rays name their views.
std::unique_ptr<RayStep> NewNgpCudaStep(const TrainConfig& config, const SceneGeometry& geometry,
                                        const RaySource* source = nullptr,
                                        std::span<const View> views = {},
                                        ThreadPool* pool = nullptr, Group* group = nullptr,
                                        const KnownDepths& depths = {},
                                        std::unique_ptr<NgpCudaWarp> warp = nullptr);

// Whether only the host can make the rays that this config trains on, so that `source` must be
// null: poses and focal lengths that move, depths, pixels by their errors, reduced pictures.
bool NeedsRaysOfTheHost(const TrainConfig& config);

// FailedPrecondition if the device in use cannot train with this config.
absl::Status CheckNgpCudaTraining(const TrainConfig& config);

// Device memory of the CUDA step of each of n_ranks ranks, with n_views pictures, at the largest
// number of rays and samples that it may reach.
size_t NgpCudaStepBytes(const TrainConfig& config, const SceneGeometry& geometry, int n_ranks = 1,
                        size_t n_views = 0);

// The field and grid of a model or checkpoint file of method `ngp`, trained with `config`. A
// checkpoint's evaluation weights are rounded as a model's are, so that both render the same bytes.
// Errors: InvalidArgument naming the tensor.
absl::StatusOr<std::unique_ptr<TrainedModel>> LoadNgpModel(const TensorFile& file,
                                                           const TrainConfig& config,
                                                           const SceneGeometry& geometry);

}  // namespace nerf
