#pragma once

#include <bit>
#include <string>
#include <type_traits>

#include "engine/base/vec3.h"

namespace nerf {

static_assert(std::endian::native == std::endian::little, "exported files are little-endian");

// Appends the bytes of numbers, one after another.
template <typename... T>
void AppendNumbers(std::string* bytes, const T&... numbers) {
  static_assert((std::is_arithmetic_v<T> && ...));
  (bytes->append(reinterpret_cast<const char*>(&numbers), sizeof(T)), ...);
}
inline void AppendVector(std::string* bytes, Vec3 v) { AppendNumbers(bytes, v.x, v.y, v.z); }

}  // namespace nerf
