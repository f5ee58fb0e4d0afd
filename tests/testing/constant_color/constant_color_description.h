#pragma once

#include "engine/base/config/method_description.h"

namespace nerf {

struct ConstantColorSettings {
  int pixels = 64;  // of a step
  bool operator==(const ConstantColorSettings&) const = default;
};

inline constexpr char kConstantColorTensor[] = "field.color";

const MethodDescription& DescribeConstantColor();

}  // namespace nerf
