#include "server/rpc/calls/authorizer.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <grpcpp/server_context.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/match.h"
#include "common/error_reason.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

constexpr std::string_view kBearer = "bearer ";

// The token of an Authorization header's value; empty without one.
std::string TokenIn(std::string_view value) {
  const bool is_bearer = value.size() > kBearer.size() &&
                         absl::EqualsIgnoreCase(absl::string_view(value.data(), kBearer.size()),
                                                absl::string_view(kBearer.data(), kBearer.size()));
  return is_bearer ? std::string(value.substr(kBearer.size())) : std::string();
}

}  // namespace

std::string_view MetadataOf(const grpc::CallbackServerContext& context, std::string_view key) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find(grpc::string_ref(key.data(), key.size()));
  if (found == metadata.end()) return {};
  return {found->second.data(), found->second.size()};
}

std::string Authorizer::TokenOf(const grpc::CallbackServerContext& context) {
  return TokenIn(MetadataOf(context, "authorization"));
}

absl::Status Authorizer::CheckToken(std::string_view authorization) const {
  return access_.Authenticate(TokenIn(authorization)).status();
}

absl::StatusOr<Principal> Authorizer::Authenticate(
    const grpc::CallbackServerContext& context) const {
  absl::StatusOr<Principal> principal = access_.Authenticate(TokenOf(context));
  if (!principal.ok()) return Counted(principal.status());
  if (on_known_) on_known_(context, *principal);
  return principal;
}

std::string TextAt(const google::protobuf::Message& whole, std::string_view path) {
  const google::protobuf::Message* message = &whole;
  while (true) {
    const size_t dot = path.find('.');
    const auto* field = message->GetDescriptor()->FindFieldByName(std::string(path.substr(0, dot)));
    if (field == nullptr) return "";
    if (dot == std::string_view::npos) {
      return message->GetReflection()->GetString(*message, field);
    }
    message = &message->GetReflection()->GetMessage(*message, field);
    path.remove_prefix(dot + 1);
  }
}

std::vector<ResourceRef> ResourcesOf(const MethodPolicy& policy,
                                     const google::protobuf::Message& request) {
  std::vector<ResourceRef> resources;
  for (const ResourceField& field : policy.fields) {
    if (field.path.empty()) continue;
    const std::string name = TextAt(request, field.path);
    const bool is_keyword = std::find(std::begin(field.keywords), std::end(field.keywords), name) !=
                            std::end(field.keywords);
    if (!name.empty() && is_keyword) continue;
    if (!name.empty()) {
      resources.push_back(ResourceOf(name));
    } else if (field.empty == EmptyField::kDefaultProject) {
      resources.push_back({"default", "projects/default"});
    } else if (field.empty == EmptyField::kEveryProject) {
      resources.push_back({});
    }
  }
  return resources;
}

absl::StatusOr<Principal> Authorizer::Begin(std::string_view method,
                                            const grpc::CallbackServerContext& context) const {
  NERF_ASSIGN_OR_RETURN(Principal principal, Authenticate(context));
  NERF_RETURN_IF_ERROR(Counted(Authorize(principal, FindMethodPolicy(method), {})));
  return principal;
}

absl::Status Authorizer::Counted(absl::Status refusal) const {
  const bool is_refusal = absl::IsUnauthenticated(refusal) || absl::IsPermissionDenied(refusal);
  if (is_refusal && on_refused_) {
    const auto reason = GetReason(refusal);
    on_refused_(reason.has_value() ? std::string_view(reason->reason) : "");
  }
  return refusal;
}

absl::Status Authorizer::CheckRequest(std::string_view method, const Principal& principal,
                                      const google::protobuf::Message& request) const {
  const MethodPolicy* policy = FindMethodPolicy(method);
  if (policy == nullptr) return Counted(Authorize(principal, policy, {}));
  return Counted(Authorize(principal, policy, ResourcesOf(*policy, request)));
}

absl::StatusOr<Principal> Authorizer::Check(std::string_view method,
                                            const grpc::CallbackServerContext& context,
                                            const google::protobuf::Message& request) const {
  NERF_ASSIGN_OR_RETURN(Principal principal, Authenticate(context));
  NERF_RETURN_IF_ERROR(CheckRequest(method, principal, request));
  return principal;
}

absl::Status Authorizer::CheckAgain(std::string_view token) const {
  return access_.Authenticate(token).status();
}

}  // namespace nerf
