#pragma once

#include <span>

#include "engine/base/config/train_config.h"
#include "engine/methods/ngp/cuda/cuda_render_device.h"
#include "engine/methods/ngp/cuda_warp.h"
#include "engine/scene/scene.h"

namespace nerf {

// The warp of method dynamic in the step of ngp on a CUDA device, for rays of `views`, which
// outlive what it makes.
NgpCudaWarpMaker DynamicCudaWarpMaker(const TrainConfig& config, const SceneGeometry& geometry,
                                      std::span<const View> views);

// What a CUDA device renders of a DynamicField.
NgpViewParts DynamicViewParts(const RadianceField& field, RenderPrecision precision,
                              kernels::Stream stream);

}  // namespace nerf
