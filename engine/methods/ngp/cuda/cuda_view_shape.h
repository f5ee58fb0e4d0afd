#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/buffer.h"
#include "engine/field/kernels/view_rays.h"
#include "engine/methods/ngp/network.h"

namespace nerf {

// How much of a view a CUDA device renders at once.
struct CudaViewShape {
  uint32_t ray_capacity = 0;  // a multiple of kernels::kViewTileRays
  uint32_t sample_capacity = 0;
  bool operator==(const CudaViewShape&) const = default;
};

// The arrays for it, all taken from one allocator. T is Half or float.
template <typename T>
struct CudaViewArrays {
  CudaViewArrays(const CudaViewShape& shape, BufferAllocator* from)
      : rays(shape.ray_capacity, from),
        harmonics(size_t{kDirectionWidth} * shape.ray_capacity, from),
        alive_even(shape.ray_capacity, from),
        alive_odd(shape.ray_capacity, from),
        segments(shape.ray_capacity, from),
        rgba(shape.ray_capacity, from),
        depths(shape.ray_capacity, from),
        t_middles(shape.sample_capacity, from),
        deltas(shape.sample_capacity, from),
        sigmas(shape.sample_capacity, from),
        ray_of(shape.sample_capacity, from),
        positions(shape.sample_capacity, from),
        colors(shape.sample_capacity, from),
        encodings(size_t{kEncodingWidth} * shape.sample_capacity, from),
        geometry(size_t{kGeometryWidth} * shape.sample_capacity, from),
        control(shape.ray_capacity > 0 ? 1 : 0, from),
        counts(shape.ray_capacity > 0 ? 1 : 0, from) {}
  // One element per ray.
  Buffer<kernels::ViewRay> rays;
  Buffer<T> harmonics;
  Buffer<uint32_t> alive_even, alive_odd;
  Buffer<kernels::cuda::RaySegment> segments;
  Buffer<uint32_t> rgba;
  Buffer<float> depths;
  // One element per sample of a wave.
  Buffer<float> t_middles, deltas, sigmas;
  Buffer<uint32_t> ray_of;
  Buffer<Vec3> positions, colors;
  Buffer<T> encodings, geometry;
  // One element per view.
  Buffer<kernels::cuda::ViewControl> control;
  Buffer<kernels::cuda::ViewCounts> counts;
};

template <typename T>
size_t CudaViewBytes(const CudaViewShape& shape) {
  MeasuringAllocator measure;
  CudaViewArrays<T>(shape, &measure);
  return measure.byte_size();
}

// The shape for a view of n_tiles: the whole view, but no more than a device can use, if its arrays
// fit half of the free memory (a training beside it may grow); else as many tiles as fit, at least
// one.
template <typename T>
CudaViewShape CudaViewShapeFor(uint32_t n_tiles, size_t free_bytes);

extern template CudaViewShape CudaViewShapeFor<float>(uint32_t n_tiles, size_t free_bytes);
extern template CudaViewShape CudaViewShapeFor<Half>(uint32_t n_tiles, size_t free_bytes);

}  // namespace nerf
