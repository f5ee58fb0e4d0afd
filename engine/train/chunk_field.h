#pragma once

#include "engine/base/ray.h"
#include "engine/base/vec3.h"

namespace nerf {

// A radiance field in training as one thread evaluates it, for FieldChunk. Rows are samples of the
// rays of one chunk. The field keeps what its backward pass needs by row.
class ChunkField {
 public:
  virtual ~ChunkField() = default;

  // Begins a chunk of n_rays rays, which stay in place until its end. times [n_rays] as RayBatch
  // has them.
  virtual void Begin(int n_rays, const Ray* rays, const float* times) = 0;
  // Makes room for n_rows rows and keeps the first n_kept.
  virtual void Reserve(int n_rows, int n_kept) = 0;
  // sigmas[i] = density of row begin + i, for n rows at positions [n] (training frame) on rays
  // ray_of [n]; in 1 / training unit.
  virtual void Density(int begin, int n, const Vec3* positions, const int* ray_of,
                       float* sigmas) = 0;
  // Row `to` becomes row `from`.
  virtual void MoveRow(int from, int to) = 0;
  // sRGB colors [n] of rows 0 to n - 1.
  virtual void Color(int n, const int* ray_of, Vec3* colors) = 0;
  // Adds the gradients of the parameters to gradient lane `lane`, given those of the densities and
  // colors of rows 0 to n - 1.
  virtual void Backward(int n, const int* ray_of, const float* grad_sigmas, const Vec3* grad_colors,
                        int lane) = 0;
};

}  // namespace nerf
