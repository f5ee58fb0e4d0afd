#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/method_policy.h"
#include "server/access/principal.h"

namespace nerf {

// One kind of credentials. Thread-safe.
class PrincipalSource {
 public:
  virtual ~PrincipalSource() = default;
  // Whom the token belongs to; nullopt if it is none of this kind. Errors: Unauthenticated
  // TOKEN_INVALID or TOKEN_EXPIRED for one of this kind that is not valid.
  virtual absl::StatusOr<std::optional<Principal>> Identify(std::string_view token) const = 0;
};

// Whom a token belongs to, among several kinds. Thread-safe.
class AccessControl {
 public:
  // Each source outlives it. They are asked in order. While `may_answer` is false nobody is let in:
  // this server may have been replaced.
  explicit AccessControl(std::vector<const PrincipalSource*> sources,
                         std::function<bool()> may_answer = {})
      : sources_(std::move(sources)), may_answer_(std::move(may_answer)) {}

  // Errors: Unauthenticated TOKEN_MISSING, TOKEN_INVALID or TOKEN_EXPIRED; Unavailable NOT_READY.
  absl::StatusOr<Principal> Authenticate(std::string_view token) const;

 private:
  const std::vector<const PrincipalSource*> sources_;
  const std::function<bool()> may_answer_;
};

// The one decision about access: whether `principal` may call a method of `policy` (nullptr: a
// method without one) on `resources`. Without resources, before the request has named any: whether
// it may call the method at all. Errors: PermissionDenied ACCESS_DENIED.
absl::Status Authorize(const Principal& principal, const MethodPolicy* policy,
                       std::span<const ResourceRef> resources);

}  // namespace nerf
