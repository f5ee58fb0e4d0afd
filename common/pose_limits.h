#pragma once

#include <cstddef>
#include <cstdint>

namespace nerf {

// Of photographs and films whose poses are to be found: what is taken and what is taken by default,
// the same for server, nerfctl and nerf-engine.

inline constexpr size_t kMaxPoseFiles = 5'000;  // and as many masks
// Frames of each film.
inline constexpr uint32_t kMinFilmFrames = 3, kMaxFilmFrames = 2'000, kDefaultFilmFrames = 120;
inline constexpr double kDefaultMinPosed = 0.9;  // share of the usable photographs

}  // namespace nerf
