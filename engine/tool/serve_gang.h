#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "engine/tool/rank_training.h"

namespace nerf {

// An Unavailable error of a training by several engines as kRankLost, with the rank that does not
// answer (-1: not known). Other errors as they are.
absl::Status WithLostRank(const absl::Status& status, int lost_rank);
// The rank of such an error; nullopt where it is not known.
std::optional<uint32_t> LostRank(const absl::Status& status);

// Writes the forecast of the ranks, and what came true, to the log.
RankReports LogRanks(const std::string& job);

}  // namespace nerf
