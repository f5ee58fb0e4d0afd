#pragma once

#include <array>
#include <span>
#include <string>

namespace nerf {

using Vec3d = std::array<double, 3>;

// Numbers of 24 bits hold a scene in coordinates of a map to half a meter. What is trained and
// exported is therefore relative to an origin near the scene, its local origin.

// The local origin of a scene with cameras at these positions: the middle of their bounds, rounded
// to a power of ten below their extent. Zero where 24 bits hold the positions to 1e-5 of that
// extent. Positions that are all one have a local origin beyond 10000 units.
Vec3d LocalOrigin(std::span<const Vec3d> positions);

// "500000, 5200000, 300".
std::string OriginText(const Vec3d& origin, const char* separator = ", ");

Vec3d Sum(const Vec3d& a, const Vec3d& b);
Vec3d Difference(const Vec3d& a, const Vec3d& b);

}  // namespace nerf
