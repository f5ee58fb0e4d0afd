#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"

namespace nerf {

// Domain of every google.rpc.ErrorInfo that nerfd sends.
inline constexpr std::string_view kErrorDomain = "nerfd";

// The form that errors have on the wire: code, message and as details ErrorInfo (reason and
// metadata of common/error_reason.h), BadRequest (field violations) and PreconditionFailure of type
// MISSING (missing blobs), as far as present. Bytes that are not UTF-8 become '?'.
google::rpc::Status ToRpcStatus(const absl::Status& status);

// Inverse. Details of other kinds or domains are dropped; an unknown code becomes kUnknown.
absl::Status FromRpcStatus(const google::rpc::Status& rpc_status);
// The same where an error is meant: code OK becomes kUnknown.
absl::Status ErrorFromRpcStatus(const google::rpc::Status& rpc_status);

// `text` with every byte that is not part of valid UTF-8 replaced by '?'; protobuf strings must be
// UTF-8.
std::string ToUtf8(std::string_view text);

}  // namespace nerf
