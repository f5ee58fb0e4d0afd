#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "engine/program/session/rank_training.h"

namespace nerf {

// Adds reason kRankLost and the rank that does not answer (-1: unknown) to an Unavailable error of
// a training by several engines. Returns other errors unchanged.
absl::Status WithLostRank(const absl::Status& status, int lost_rank);
// The lost rank that a kRankLost error names; nullopt if it is unknown.
std::optional<uint32_t> LostRank(const absl::Status& status);

// Reports that log the forecast of the ranks at the start, and at the end what was measured.
RankReports LogRanks(const std::string& job);

}  // namespace nerf
