#pragma once

#include <algorithm>

#include "engine/base/contraction.h"
#include "engine/base/vec3.h"

namespace nerf {

// What cameras that all look one way see: a pyramid of four equal sides, from some depth on.
// Lengths in training units.
struct Frustum {
  Vec3 apex = {};                          // the mean of the cameras' positions
  Vec3 right = {}, up = {}, forward = {};  // of length 1, at right angles
  float near = 0;   // depth at which it begins, along `forward`; 0: there is none
  float slope = 0;  // half of its width, and of its height, at depth 1
  bool empty() const { return !(near > 0); }
  bool operator==(const Frustum&) const = default;
};

// How the unit cube of an encoding lies in the training frame.
struct EncodedSpace {
  // The share of the cube's depth that kPerspective uses. Cells are deeper than wide: cameras that
  // stand close together tell depth less well than direction.
  static constexpr float kPerspectiveDepth = 0.5f;

  Contraction kind = Contraction::kNone;
  // kNone: p is at (p - origin) * scale. kLinf, kL2: the same, contracted; the origin is then the
  // center of the level-0 box, the unit half of its side.
  Vec3 origin = {}, scale = {1, 1, 1};
  Frustum frustum = {};  // of kPerspective

  // p in the unit cube. With kPerspective these are normalized device coordinates: two directions
  // and the inverse depth. What a pixel shows has the same width in cells, near or far. What lies
  // in front of where the frustum begins is moved there. Sources: Mildenhall et al. 2020, "NeRF",
  // appendix C; Wang et al. 2023, "F2-NeRF", section 3, for hash grids.
  NERF_HD Vec3 ToUnit(Vec3 p) const {
    if (kind == Contraction::kPerspective) return ToPerspective(p - frustum.apex);
    const Vec3 relative = (p - origin) * scale;
    return kind == Contraction::kNone ? relative : ContractedUnit(kind, relative);
  }

  // Where it has what lies infinitely far away in a direction: on the border of the cube, or with
  // kL2 of the ball in it. Requires: direction is not zero.
  NERF_HD Vec3 HorizonUnit(Vec3 direction) const {
    if (kind != Contraction::kPerspective) return nerf::HorizonUnit(kind, direction);
    return ToPerspective(direction * (kFar * frustum.near));
  }

  // The gradient by p from that by ToUnit(p) = unit.
  NERF_HD Vec3 Backward(Vec3 unit, Vec3 grad_unit) const {
    if (kind == Contraction::kNone) return grad_unit * scale;
    if (kind != Contraction::kPerspective)
      return ContractedUnitBackward(kind, unit, grad_unit) * scale;
    if (!(unit.x > 0 && unit.x < 1)) grad_unit.x = 0;  // encodings clamp
    if (!(unit.y > 0 && unit.y < 1)) grad_unit.y = 0;
    if (!(unit.z > 0)) return BackwardAtNear(grad_unit);
    const float inverse_depth = (1 - unit.z * (1 / kPerspectiveDepth)) / frustum.near;
    const float sides = 0.5f * inverse_depth / frustum.slope;
    const float across = (2 * unit.x - 1) * frustum.slope,
                upward = (2 * unit.y - 1) * frustum.slope;
    const Vec3 by_sides = (frustum.right - frustum.forward * across) * (grad_unit.x * sides) +
                          (frustum.up - frustum.forward * upward) * (grad_unit.y * sides);
    const float deeper = kPerspectiveDepth * frustum.near * inverse_depth * inverse_depth;
    return by_sides + frustum.forward * (grad_unit.z * deeper);
  }

 private:
  static constexpr float kFar = 1e6f;  // times frustum.near

  // Of what was moved to where the frustum begins.
  NERF_HD Vec3 BackwardAtNear(Vec3 grad_unit) const {
    const float sides = 0.5f / (frustum.slope * frustum.near);
    return (frustum.right * grad_unit.x + frustum.up * grad_unit.y) * sides;
  }

  NERF_HD Vec3 ToPerspective(Vec3 from_apex) const {
    const float depth = std::max(Dot(from_apex, frustum.forward), frustum.near);
    const float sides = 0.5f / (frustum.slope * depth);
    return {0.5f + sides * Dot(from_apex, frustum.right), 0.5f + sides * Dot(from_apex, frustum.up),
            kPerspectiveDepth * (1 - frustum.near / depth)};
  }
};

}  // namespace nerf
