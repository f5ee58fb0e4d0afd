#include "engine/base/protocol/failed_line.h"

#include <string_view>

#include "common/error_reason.h"

namespace nerf::protocol {
namespace {

absl::StatusCode CodeNamed(std::string_view name) {
  for (int i = 1; i <= static_cast<int>(absl::StatusCode::kUnauthenticated); ++i) {
    const auto code = static_cast<absl::StatusCode>(i);
    if (absl::StatusCodeToString(code) == name) return code;
  }
  return absl::StatusCode::kUnknown;
}

}  // namespace

std::string ReasonOf(const absl::Status& status) {
  if (const auto found = GetReason(status); found.has_value()) return found->reason;
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return std::string(reason::kFieldInvalid);
    case absl::StatusCode::kNotFound:
      return std::string(reason::kResourceNotFound);
    case absl::StatusCode::kDataLoss:
      return std::string(reason::kCheckpointCorrupt);
    case absl::StatusCode::kResourceExhausted:
      return std::string(reason::kOutOfMemory);
    case absl::StatusCode::kAborted:
      return std::string(reason::kTrainingDiverged);
    default:
      return absl::StatusCodeToString(status.code());
  }
}

std::string FailedLine(const absl::Status& status) {
  JsonObject line;
  line["event"] = "failed";
  line["code"] = absl::StatusCodeToString(status.code());
  line["reason"] = ReasonOf(status);
  line["message"] = std::string(status.message());
  return JsonLine(line);
}

absl::Status ReadFailed(KeyReader& reader) {
  const absl::Status status(CodeNamed(reader.Text("code", Need::kRequired)),
                            reader.Text("message", Need::kOptional));
  const std::string reason = reader.Text("reason", Need::kOptional);
  return reason.empty() ? status : WithReason(status, reason);
}

}  // namespace nerf::protocol
