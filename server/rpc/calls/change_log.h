#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "server/access/principal.h"
#include "server/rpc/connections/call_origins.h"

namespace google::protobuf {
class Message;
}

namespace nerf {

// Logs who changed what, for methods that change something.
void LogChange(std::string_view method, const Principal& principal, const v1::CallOrigin& origin,
               const google::protobuf::Message& request, const absl::Status& status);

}  // namespace nerf
