#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "engine/base/protocol/json.h"
#include "engine/base/protocol/key_reader.h"

namespace nerf::protocol {

// The reason of an error of a rank when another one does not answer.
inline constexpr std::string_view kRankLost = "RANK_LOST";

// The status's reason; where it has none, the one that docs/inside/protocol.md gives for its code.
std::string ReasonOf(const absl::Status& status);

// The line `{"event":"failed",...}`, which commands of nerf-engine print with --json. Requires: not
// OK.
std::string FailedLine(const absl::Status& status);
// Its error.
absl::Status ReadFailed(KeyReader& reader);

}  // namespace nerf::protocol
