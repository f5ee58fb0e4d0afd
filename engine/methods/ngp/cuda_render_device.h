#pragma once

#include <functional>
#include <memory>

#include "engine/base/vec3.h"
#include "engine/field/radiance_field.h"
#include "engine/kernels/stream.h"
#include "engine/methods/ngp/network.h"
#include "engine/render/render_device.h"

namespace nerf {

// Renders models of the ngp field on CUDA device `index`, which the calling thread uses from now
// on. Loading and rendering throw kernels::cuda::CudaOutOfMemory and kernels::cuda::CudaError.
// Views that do not fit into the device's memory are rendered in parts.
std::unique_ptr<RenderDevice> NewNgpCudaRenderDevice(int index);

// What moves the points of a view before they are encoded.
class NgpViewWarp {
 public:
  virtual ~NgpViewWarp() = default;
  // The time of the views from now on.
  virtual void SetTime(float time, kernels::Stream stream) = 0;
  // Moves points of the unit cube, in place.
  virtual void Move(const kernels::DeviceRange& range, Vec3* points, kernels::Stream stream) = 0;
};

// The same of models whose field is that of ngp behind a warp. parts_of: of such a field, which
// outlives the call alone, but its network's parameters, which are copied.
struct NgpViewParts {
  NgpNetwork network;
  std::unique_ptr<NgpViewWarp> warp;
};
using NgpViewPartsOf = std::function<NgpViewParts(
    const RadianceField& field, RenderPrecision precision, kernels::Stream stream)>;
std::unique_ptr<RenderDevice> NewNgpCudaRenderDevice(int index, NgpViewPartsOf parts_of);

}  // namespace nerf
