#pragma once

#include "engine/base/check.h"
#include "engine/base/half_float.h"
#include "engine/base/ray.h"
#include "engine/base/vec3.h"
#include "engine/field/kernels/stream.h"

namespace nerf::kernels {

// The 16 real spherical harmonics of degree 0 to 3 of a unit direction, in the order (l, m) =
// (0,0), (1,-1), (1,0), (1,1), (2,-2), ... (3,3), with the Condon-Shortley phase. Orthonormal over
// the sphere. Source: Sloan 2013, "Efficient spherical harmonic evaluation", the polynomial form.
NERF_HD inline void SphericalHarmonics4(Vec3 d, float* out) {
  const float x = d.x, y = d.y, z = d.z;
  const float xx = x * x, yy = y * y, zz = z * z, xy = x * y, yz = y * z, xz = x * z;
  out[0] = 0.28209479177387814f;
  out[1] = -0.48860251190291987f * y;
  out[2] = 0.48860251190291987f * z;
  out[3] = -0.48860251190291987f * x;
  out[4] = 1.0925484305920792f * xy;
  out[5] = -1.0925484305920792f * yz;
  out[6] = 0.94617469575755997f * zz - 0.31539156525251999f;
  out[7] = -1.0925484305920792f * xz;
  out[8] = 0.54627421529603959f * (xx - yy);
  out[9] = 0.59004358992664352f * y * (yy - 3.0f * xx);
  out[10] = 2.8906114426405538f * xy * z;
  out[11] = 0.45704579946446572f * y * (1.0f - 5.0f * zz);
  out[12] = 0.3731763325901154f * z * (5.0f * zz - 3.0f);
  out[13] = 0.45704579946446572f * x * (1.0f - 5.0f * zz);
  out[14] = 1.4453057213202769f * z * (xx - yy);
  out[15] = 0.59004358992664352f * x * (3.0f * yy - xx);
}

namespace cuda {

// harmonics[16 r + i]: harmonic i of ray r's direction, for r in range. T is float or Half.
template <typename T>
struct SphericalHarmonicsParams {
  DeviceRange range;
  const Ray* rays = nullptr;
  T* harmonics = nullptr;  // [capacity][16]
};
void SphericalHarmonics(const SphericalHarmonicsParams<float>& params, Stream stream);
void SphericalHarmonics(const SphericalHarmonicsParams<Half>& params, Stream stream);

}  // namespace cuda

}  // namespace nerf::kernels
