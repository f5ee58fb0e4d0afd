#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/access_control.h"

namespace google::protobuf {
class Message;
}
namespace grpc {
class CallbackServerContext;
}

namespace nerf {

// Authorizes calls: takes the token from a call's metadata and the resources from its request, and
// asks Authorize. Every handler calls it before it reads its request. Thread-safe.
class Authorizer {
 public:
  // `access` outlives it.
  explicit Authorizer(const AccessControl* access) : access_(*access) {}

  // Errors: Unauthenticated TOKEN_MISSING, TOKEN_INVALID, TOKEN_EXPIRED; PermissionDenied
  // ACCESS_DENIED.
  absl::StatusOr<Principal> Check(std::string_view method,
                                  const grpc::CallbackServerContext& context,
                                  const google::protobuf::Message& request) const;

  // The same for a stream of requests: before the first, without resources, ...
  absl::StatusOr<Principal> Begin(std::string_view method,
                                  const grpc::CallbackServerContext& context) const;
  // ... and for each request that names one.
  static absl::Status CheckRequest(std::string_view method, const Principal& principal,
                                   const google::protobuf::Message& request);

  // The token of a call, and whether a stream that was begun with it may go on: an error after it
  // has expired or was revoked.
  static std::string TokenOf(const grpc::CallbackServerContext& context);
  absl::Status CheckAgain(std::string_view token) const;

 private:
  const AccessControl& access_;
};

// The resources that a request names in the fields of its method's policy.
std::vector<ResourceRef> ResourcesOf(const MethodPolicy& policy,
                                     const google::protobuf::Message& request);

// The value of a metadata entry; empty without one.
std::string_view MetadataOf(const grpc::CallbackServerContext& context, std::string_view key);

}  // namespace nerf
