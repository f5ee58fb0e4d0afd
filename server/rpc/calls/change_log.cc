#include "server/rpc/calls/change_log.h"

#include <string>

#include "common/logging.h"
#include "server/access/method_policy.h"
#include "server/rpc/calls/authorizer.h"

namespace nerf {

void LogChange(std::string_view method, const Principal& principal, std::string_view peer,
               const v1::CallOrigin& origin, const google::protobuf::Message& request,
               const google::protobuf::Message* made, const absl::Status& status) {
  const MethodPolicy* policy = FindMethodPolicy(method);
  if (policy == nullptr || !policy->is_change) return;
  std::string names;
  const auto add = [&names](std::string_view name) {
    if (!names.empty() && !name.empty()) names += ' ';
    names += name;
  };
  for (const ResourceRef& resource : ResourcesOf(*policy, request)) add(resource.name);
  if (!policy->logged_field.empty()) add(TextAt(request, policy->logged_field));
  if (made != nullptr && status.ok()) add(TextAt(*made, "name"));
  LogInfo("change", {{"principal", principal.name},
                     {"method", std::string(method)},
                     {"resource", names},
                     {"peer", peer},
                     {"code", absl::StatusCodeToString(status.code())},
                     {"request_id", origin.request_id()},
                     {"traceparent", origin.traceparent()}});
}

}  // namespace nerf
