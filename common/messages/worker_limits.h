#pragma once

#include <cstddef>
#include <cstdint>

namespace nerf {

// What is taken of an engine by its worker, and of a worker by the server: neither trusts who
// sends. More is left out, of texts of ranks refused.

// Problems of a failure, and warnings of a check.
inline constexpr int kMaxProblems = 500;
// Figures of a progress that have no field of their own.
inline constexpr int kMaxFigures = 100;
inline constexpr size_t kMaxFigureNameLength = 64;
inline constexpr int kMaxTestViewScores = 4096;
// Texts that a rank tells the others of its lease.
inline constexpr uint32_t kMaxRankTexts = 64;
inline constexpr size_t kMaxRankTextBytes = size_t{64} << 10;

}  // namespace nerf
