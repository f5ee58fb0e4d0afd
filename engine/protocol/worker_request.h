#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/protocol/messages.h"

namespace nerf::protocol {

// One line with its newline.
std::string ToLine(const WorkerRequest& request);

// A line of the worker. type, job and id are those of the line as far as it could be read, also if
// the request is wrong, so that an answer can name them; else empty.
struct ReceivedRequest {
  // Errors: InvalidArgument: no JSON object, no type or an unknown one, or (FIELD_INVALID) every
  // key that is missing, of the wrong type or out of range. Unknown keys are ignored.
  absl::StatusOr<WorkerRequest> request;
  std::string type, job, id;
};
ReceivedRequest ParseWorkerRequest(std::string_view line);

}  // namespace nerf::protocol
