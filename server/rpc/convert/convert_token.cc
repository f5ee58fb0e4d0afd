#include "server/rpc/convert/convert_token.h"

#include <utility>

#include "common/error_reason.h"
#include "common/ids.h"
#include "common/status_macros.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/resources/resource_key.h"
#include "server/rpc/convert/convert_common.h"

namespace nerf {
namespace {

v1::Token::Role ToProtoRole(Role role) {
  switch (role) {
    case Role::kViewer:
      return v1::Token::VIEWER;
    case Role::kEditor:
      return v1::Token::EDITOR;
    case Role::kWorker:
      return v1::Token::WORKER;
    case Role::kAdmin:
      return v1::Token::ADMIN;
  }
  return v1::Token::ROLE_UNSPECIFIED;
}

absl::StatusOr<Role> RoleFromProto(v1::Token::Role role) {
  switch (role) {
    case v1::Token::VIEWER:
      return Role::kViewer;
    case v1::Token::EDITOR:
      return Role::kEditor;
    case v1::Token::WORKER:
      return Role::kWorker;
    case v1::Token::ADMIN:
      return Role::kAdmin;
    default:
      return InvalidFieldsError({{"token.role", "must be VIEWER, EDITOR, WORKER or ADMIN"}});
  }
}

std::string ProjectText(const std::string& project) {
  return project.empty() ? "" : "projects/" + project;
}

}  // namespace

v1::Token ToProto(const TokenRecord& token) {
  v1::Token proto;
  proto.set_name("tokens/" + token.id);
  proto.set_display_name(token.display_name);
  proto.set_role(ToProtoRole(token.role));
  proto.set_project(ProjectText(token.project));
  *proto.mutable_create_time() = ToProto(token.create_time);
  if (token.expire_time != absl::InfiniteFuture()) {
    *proto.mutable_expire_time() = ToProto(token.expire_time);
  }
  return proto;
}

v1::Access ToProto(const Principal& principal) {
  v1::Access access;
  access.set_principal(principal.name);
  for (const Grant& grant : principal.grants) {
    v1::Access::Grant* proto = access.add_grants();
    proto->set_role(ToProtoRole(grant.role));
    proto->set_project(ProjectText(grant.project));
    proto->set_resource(grant.resource);
  }
  if (principal.expire_time != absl::InfiniteFuture()) {
    *access.mutable_expire_time() = ToProto(principal.expire_time);
  }
  return access;
}

absl::StatusOr<TokenRecord> FromProto(const v1::CreateTokenRequest& request) {
  RequestCheck check;
  TokenRecord token;
  token.display_name = request.token().display_name();
  check.RequireDisplayName("token.display_name", token.display_name);
  token.role = TakeOr(RoleFromProto(request.token().role()), check);
  if (!request.token().project().empty()) {
    token.project = TakeOr(ParseProjectName("token.project", request.token().project()), check);
    check.Require(token.role != Role::kWorker, "token.project",
                  "must be empty for a worker, which works for every project");
  }
  if (request.token().has_expire_time()) {
    token.expire_time =
        TakeOr(FromProto("token.expire_time", request.token().expire_time()), check);
  }
  NERF_RETURN_IF_ERROR(check.Result());
  return token;
}

absl::StatusOr<std::string> ParseTokenName(std::string_view field, std::string_view name) {
  constexpr std::string_view kPrefix = "tokens/";
  if (!name.starts_with(kPrefix) || !IsResourceId(name.substr(kPrefix.size()))) {
    return InvalidFieldsError({{std::string(field), "must have the form tokens/{token}"}});
  }
  return std::string(name.substr(kPrefix.size()));
}

}  // namespace nerf
