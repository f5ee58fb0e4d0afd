#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "server/access/principal.h"
#include "server/rpc/connections/call_origins.h"

namespace google::protobuf {
class Message;
}

namespace nerf {

// Logs who changed what, from where, for methods that change something. `made` is the resource that
// the call made, or null.
void LogChange(std::string_view method, const Principal& principal, std::string_view peer,
               const v1::CallOrigin& origin, const google::protobuf::Message& request,
               const google::protobuf::Message* made, const absl::Status& status);

}  // namespace nerf
