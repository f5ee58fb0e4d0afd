#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "engine/base/vec3.h"
#include "engine/field/kernels/stream.h"
#include "engine/field/kernels/view_rays.h"
#include "engine/field/radiance_field.h"
#include "engine/methods/ngp/network.h"
#include "engine/train/cuda_field.h"
#include "engine/views/render/render_device.h"

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

// A field of another kind that a view is rendered with. Positions are in its frame.
class CudaViewField {
 public:
  virtual ~CudaViewField() = default;
  virtual CudaFieldFrame frame() const = 0;
  // Most tiles (kernels::kViewTileRays) of a view to render at once.
  virtual uint32_t tiles_at_once() const = 0;
  // Makes room. Arrays move.
  virtual void Reserve(uint32_t ray_capacity, uint32_t sample_capacity) = 0;
  // The time of the views from now on.
  virtual void SetTime(float /*time*/, kernels::Stream /*stream*/) {}
  // Begins with these rays.
  virtual void Begin(const kernels::DeviceRange& range, const kernels::ViewRay* rays,
                     kernels::Stream stream) = 0;
  // Densities and colors of samples; ray_of: indices into rays.
  struct Samples {
    kernels::DeviceRange range;
    const Vec3* positions = nullptr;
    const uint32_t* ray_of = nullptr;
    const kernels::ViewRay* rays = nullptr;
    // [n_rays][16] of their directions, in the precision that the field was made for.
    const void* harmonics = nullptr;
    float* sigmas = nullptr;
    Vec3* colors = nullptr;
  };
  virtual void Evaluate(const Samples& samples, kernels::Stream stream) = 0;
};

// The same of models whose field is that of ngp behind a warp, or of another kind. parts_of: of
// such a field, which outlives the call alone, but its network's parameters, which are copied.
struct NgpViewParts {
  NgpNetwork network;
  std::unique_ptr<NgpViewWarp> warp;
  std::unique_ptr<CudaViewField> field;  // in place of the network, which has no parameters
};
using NgpViewPartsOf = std::function<NgpViewParts(
    const RadianceField& field, RenderPrecision precision, kernels::Stream stream)>;
std::unique_ptr<RenderDevice> NewNgpCudaRenderDevice(int index, NgpViewPartsOf parts_of);

}  // namespace nerf
