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
  kNobody,      // methods that nobody thought about
  kEverybody,   // loopback, or --insecure
  kWorkerToken  // metadata `authorization: Bearer <worker.token>`
};

// The policy, in one place. `method` is "package.Service/Method".
Access AccessOf(std::string_view method);

// The one authorization function: every handler asks it before it looks at a request. Thread-safe.
class Authorizer {
 public:
  explicit Authorizer(std::string_view worker_token);

  // Errors: Unauthenticated TOKEN_MISSING or TOKEN_INVALID; PermissionDenied for kNobody.
  absl::Status Check(std::string_view method, const grpc::CallbackServerContext& context) const;

 private:
  const std::string token_digest_;  // tokens are compared by digest, in constant time
};

}  // namespace nerf
