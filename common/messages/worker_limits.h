#pragma once

#include <cstddef>
#include <cstdint>

namespace nerf {

// Limits on what a worker accepts of its engine, and the server of a worker. Items beyond a limit
// are dropped; a text of a rank beyond one is refused.

// Problems of a failure, and warnings of a check.
inline constexpr int kMaxProblems = 500;
// Figures of a progress that have no field of their own.
inline constexpr int kMaxFigures = 100;
inline constexpr size_t kMaxFigureNameLength = 64;
inline constexpr int kMaxTestViewScores = 4096;
// Finished stages of a search for poses, which has up to 15.
inline constexpr size_t kMaxPoseStages = 32;
// Texts that a rank tells the others of its lease.
inline constexpr uint32_t kMaxRankTexts = 64;
inline constexpr size_t kMaxRankTextBytes = size_t{64} << 10;

}  // namespace nerf
