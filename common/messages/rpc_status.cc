#include "common/messages/rpc_status.h"

#include <optional>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "common/error_reason.h"
#include "google/rpc/error_details.pb.h"

namespace nerf {
namespace {

constexpr char kMissingType[] = "MISSING";

// Length of the UTF-8 sequence at the front of `text`, 0 when it is not one.
size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto continues = [&](size_t i) { return i < text.size() && (byte(i) & 0xC0) == 0x80; };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    if (!continues(1) || !continues(2)) return 0;
    // Overlong forms and surrogates are not UTF-8.
    if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F)) return 0;
    return 3;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    if (!continues(1) || !continues(2) || !continues(3)) return 0;
    if ((lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F)) return 0;
    return 4;
  }
  return 0;
}

}  // namespace

std::string ToUtf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) {
      result += '?';
      text.remove_prefix(1);
    } else {
      result += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return result;
}

google::rpc::Status ToRpcStatus(const absl::Status& status) {
  google::rpc::Status result;
  result.set_code(static_cast<int>(status.code()));
  result.set_message(ToUtf8(std::string_view(status.message().data(), status.message().size())));
  if (const auto found = GetReason(status); found.has_value()) {
    google::rpc::ErrorInfo error_info;
    error_info.set_reason(ToUtf8(found->reason));
    error_info.set_domain(std::string(kErrorDomain));
    for (const auto& [key, value] : found->metadata) {
      (*error_info.mutable_metadata())[ToUtf8(key)] = ToUtf8(value);
    }
    result.add_details()->PackFrom(error_info);
  }
  if (const auto violations = GetProblems(status); !violations.empty()) {
    google::rpc::BadRequest bad_request;
    for (const Problem& violation : violations) {
      auto* added = bad_request.add_field_violations();
      added->set_field(ToUtf8(violation.field));
      added->set_description(ToUtf8(violation.message));
    }
    result.add_details()->PackFrom(bad_request);
  }
  if (const auto missing = GetMissingBlobs(status); !missing.empty()) {
    google::rpc::PreconditionFailure failure;
    for (const std::string& blob : missing) {
      auto* added = failure.add_violations();
      added->set_type(kMissingType);
      added->set_subject(ToUtf8(blob));
      added->set_description("upload it first");
    }
    result.add_details()->PackFrom(failure);
  }
  return result;
}

absl::Status ErrorFromRpcStatus(const google::rpc::Status& rpc_status) {
  const absl::Status status = FromRpcStatus(rpc_status);
  return status.ok() ? absl::UnknownError(rpc_status.message()) : status;
}

absl::Status FromRpcStatus(const google::rpc::Status& rpc_status) {
  if (rpc_status.code() == 0) return absl::OkStatus();
  const absl::StatusCode code =
      rpc_status.code() >= 1 &&
              rpc_status.code() <= static_cast<int>(absl::StatusCode::kUnauthenticated)
          ? static_cast<absl::StatusCode>(rpc_status.code())
          : absl::StatusCode::kUnknown;
  absl::Status status(code, rpc_status.message());
  std::optional<ErrorReason> found;
  for (const google::protobuf::Any& detail : rpc_status.details()) {
    google::rpc::ErrorInfo error_info;
    google::rpc::BadRequest bad_request;
    google::rpc::PreconditionFailure failure;
    if (detail.UnpackTo(&error_info) && error_info.domain() == kErrorDomain) {
      found = ErrorReason{error_info.reason(),
                          {error_info.metadata().begin(), error_info.metadata().end()}};
    } else if (detail.UnpackTo(&bad_request) && bad_request.field_violations_size() > 0) {
      std::vector<Problem> problems;
      for (const auto& violation : bad_request.field_violations()) {
        problems.emplace_back(violation.field(), violation.description());
      }
      // Only its payload is copied; code and message stay the sender's.
      const absl::Status carrier = InvalidFieldsError(problems);
      carrier.ForEachPayload(
          [&](auto url, const absl::Cord& payload) { status.SetPayload(url, payload); });
    } else if (detail.UnpackTo(&failure)) {
      std::vector<std::string> missing;
      for (const auto& violation : failure.violations()) {
        if (violation.type() == kMissingType) missing.push_back(violation.subject());
      }
      if (missing.empty()) continue;
      const absl::Status carrier = BlobsMissingError(missing);
      carrier.ForEachPayload(
          [&](auto url, const absl::Cord& payload) { status.SetPayload(url, payload); });
    }
  }
  if (found.has_value()) return WithReason(std::move(status), found->reason, found->metadata);
  return status;
}

}  // namespace nerf
