#pragma once

#include <cstdint>

namespace nerf {

// What one view may be. Client, server and engine refuse the same.
inline constexpr int kMaxViewSide = 16384;  // pixels
inline constexpr int64_t kMaxViewPixels = 64'000'000;
inline constexpr int kMaxOrbitViews = 100'000;

}  // namespace nerf
