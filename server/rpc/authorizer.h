#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace grpc {
class CallbackServerContext;
}

namespace nerf {

// Who may call a method.
enum class Access {
  kNobody,      // methods without a policy
  kEverybody,   // loopback, or --insecure
  kWorkerToken  // metadata `authorization: Bearer <worker.token>`
};

// The policy of a method, "package.Service/Method".
Access AccessOf(std::string_view method);

// Authorizes calls. Every handler calls Check before it reads its request. Thread-safe.
class Authorizer {
 public:
  explicit Authorizer(std::string_view worker_token);

  // Errors: Unauthenticated TOKEN_MISSING or TOKEN_INVALID; PermissionDenied for kNobody.
  absl::Status Check(std::string_view method, const grpc::CallbackServerContext& context) const;

 private:
  const std::string token_digest_;  // digests are compared in constant time
};

}  // namespace nerf
