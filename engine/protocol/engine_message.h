#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/protocol/messages.h"

namespace nerf::protocol {

// One line with its newline, at most kMaxLineBytes long: lists of problems and warnings and long
// texts are cut, and job and id above 1 KiB are left out of Refused.
std::string ToLine(const EngineMessage& message);

// Errors: InvalidArgument (FIELD_INVALID where keys are missing, of the wrong type or out of
// range); Unimplemented for an unknown type. Unknown keys are ignored.
absl::StatusOr<EngineMessage> ParseEngineMessage(std::string_view line);

// [{"name", "dtype", "shape"}].
JsonObject TensorList(const std::vector<Tensor>& tensors);

}  // namespace nerf::protocol
