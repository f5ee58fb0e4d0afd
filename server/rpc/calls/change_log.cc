#include "server/rpc/calls/change_log.h"

#include <string>

#include "common/logging.h"
#include "server/access/method_policy.h"
#include "server/rpc/calls/authorizer.h"

namespace nerf {

void LogChange(std::string_view method, const Principal& principal, const v1::CallOrigin& origin,
               const google::protobuf::Message& request, const absl::Status& status) {
  const MethodPolicy* policy = FindMethodPolicy(method);
  if (policy == nullptr || !policy->is_change) return;
  std::string names;
  for (const ResourceRef& resource : ResourcesOf(*policy, request)) {
    if (!names.empty()) names += ' ';
    names += resource.name;
  }
  LogInfo("change", {{"principal", principal.name},
                     {"method", std::string(method)},
                     {"resource", names},
                     {"code", absl::StatusCodeToString(status.code())},
                     {"request_id", origin.request_id()},
                     {"traceparent", origin.traceparent()}});
}

}  // namespace nerf
