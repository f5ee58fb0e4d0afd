#include "worker/base/call_result.h"

#include <fmt/format.h>

#include "common/error_reason.h"

namespace nerf {

CallResult ToCallResult(const absl::Status& status) {
  CallResult result{status.code(), std::string(status.message()), ""};
  if (auto found = GetReason(status); found.has_value()) result.reason = found->reason;
  return result;
}

absl::Status ToStatus(const CallResult& result) {
  const absl::Status status(result.code, result.message);
  return result.reason.empty() ? status : WithReason(status, result.reason);
}

absl::Status AsOwnError(absl::Status status) {
  if (!absl::IsUnavailable(status) && !absl::IsResourceExhausted(status)) return status;
  return WithReason(
      absl::ResourceExhaustedError(fmt::format("on the worker: {}", std::string(status.message()))),
      reason::kWorkerExhausted);
}

absl::Status AsLostBlob(absl::Status status) {
  if (!absl::IsNotFound(status)) return status;
  CallResult result = ToCallResult(status);
  result.code = absl::StatusCode::kDataLoss;
  return ToStatus(result);
}

absl::Status WithMessage(const absl::Status& status, std::string message) {
  CallResult result = ToCallResult(status);
  result.message = std::move(message);
  return ToStatus(result);
}

absl::Status Prefixed(std::string_view prefix, const absl::Status& status) {
  return WithMessage(status, fmt::format("{}: {}", prefix, std::string(status.message())));
}

bool IsTransient(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kResourceExhausted:
      return true;
    default:
      return false;
  }
}

bool MayPass(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return true;
    default:
      return false;
  }
}

}  // namespace nerf
