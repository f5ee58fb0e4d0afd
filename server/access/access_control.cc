#include "server/access/access_control.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/access_reason.h"
#include "common/error_reason.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

bool Covers(const Grant& grant, const ResourceRef& resource) {
  if (!grant.project.empty() && grant.project != resource.project) return false;
  if (grant.resource.empty() || resource.name == grant.resource) return true;
  return resource.name.starts_with(grant.resource + "/");
}

// The least of the roles that may call a method.
std::string_view NeededRole(Roles roles) {
  constexpr std::pair<Role, std::string_view> kNames[] = {{Role::kViewer, "viewer"},
                                                          {Role::kEditor, "editor"},
                                                          {Role::kAdmin, "admin"},
                                                          {Role::kWorker, "worker"}};
  for (const auto& [role, name] : kNames) {
    if ((roles & static_cast<Roles>(role)) != 0) return name;
  }
  return "";
}

absl::Status Denied(const Principal& principal, const MethodPolicy& policy, std::string_view what) {
  const std::string_view role = NeededRole(policy.roles);
  return WithReason(
      absl::PermissionDeniedError(fmt::format("{} may not call {}{}: it needs the role {}",
                                              principal.name, policy.method, what, role)),
      reason::kAccessDenied, {{"role", std::string(role)}});
}

}  // namespace

absl::StatusOr<Principal> AccessControl::Authenticate(std::string_view token) const {
  if (may_answer_ && !may_answer_()) {
    return WithReason(
        absl::UnavailableError("this replica cannot tell whether it still leads; ask again"),
        reason::kNotReady);
  }
  if (token.empty()) {
    return WithReason(
        absl::UnauthenticatedError("needs a token as metadata `authorization: Bearer ...`"),
        reason::kTokenMissing);
  }
  for (const PrincipalSource* source : sources_) {
    NERF_ASSIGN_OR_RETURN(std::optional<Principal> principal, source->Identify(token));
    if (principal.has_value()) return *std::move(principal);
  }
  return WithReason(absl::UnauthenticatedError("the token is unknown or was revoked"),
                    reason::kTokenInvalid);
}

absl::Status Authorize(const Principal& principal, const MethodPolicy* policy,
                       std::span<const ResourceRef> resources) {
  if (policy == nullptr) {
    return WithReason(absl::PermissionDeniedError(
                          fmt::format("{} may not call a method without a policy", principal.name)),
                      reason::kAccessDenied);
  }
  if (policy->scope == Scope::kCaller) return absl::OkStatus();
  const auto has_role = [&](const Grant& grant) {
    return (policy->roles & static_cast<Roles>(grant.role)) != 0;
  };
  const auto may_reach = [&](const ResourceRef& resource) {
    return std::any_of(principal.grants.begin(), principal.grants.end(), [&](const Grant& grant) {
      return has_role(grant) && Covers(grant, resource);
    });
  };
  if (policy->scope == Scope::kServer) {
    return may_reach({}) ? absl::OkStatus() : Denied(principal, *policy, " for every project");
  }
  if (std::none_of(principal.grants.begin(), principal.grants.end(), has_role)) {
    return Denied(principal, *policy, "");
  }
  for (const ResourceRef& resource : resources) {
    if (may_reach(resource)) continue;
    return Denied(principal, *policy,
                  resource.name.empty()
                      ? std::string(" for every project")
                      : fmt::format(" on {} (or it might not exist)", resource.name));
  }
  return absl::OkStatus();
}

}  // namespace nerf
