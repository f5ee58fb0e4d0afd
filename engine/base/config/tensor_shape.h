#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nerf {

// A tensor's name in a file, its type ("F32", "F16", ...) and its sizes, outermost first.
struct TensorShape {
  std::string name;
  std::string dtype;
  std::vector<uint32_t> shape;
  bool operator==(const TensorShape&) const = default;
};

}  // namespace nerf
