#pragma once

#include <string_view>

namespace nerf {

// Capability of a worker that names features and no methods: it is granted trainings of every
// method.
inline constexpr std::string_view kAnyTraining = "*";

}  // namespace nerf
