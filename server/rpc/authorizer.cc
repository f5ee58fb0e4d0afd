#include "server/rpc/authorizer.h"

#include <grpcpp/server_context.h>

#include <algorithm>
#include <array>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/error_reason.h"
#include "common/sha256.h"

namespace nerf {
namespace {

struct Policy {
  std::string_view service;
  Access access;
};

constexpr std::array kPolicies = {
    Policy{"nerf.v1.SceneService", Access::kEverybody},
    Policy{"nerf.v1.BlobService", Access::kEverybody},
    Policy{"nerf.v1.TrainingService", Access::kEverybody},
    Policy{"nerf.v1.ModelService", Access::kEverybody},
    Policy{"nerf.v1.RenderService", Access::kEverybody},
    Policy{"nerf.v1.RenderJobService", Access::kEverybody},
    Policy{"nerf.v1.AdminService", Access::kEverybody},
    Policy{"google.bytestream.ByteStream", Access::kEverybody},
    Policy{"nerf.v1.WorkerService", Access::kWorkerToken},
};

constexpr std::string_view kBearer = "bearer ";

bool EqualInConstantTime(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference = static_cast<unsigned char>(difference | (a[i] ^ b[i]));
  }
  return difference == 0;
}

}  // namespace

Access AccessOf(std::string_view method) {
  const std::string_view service = method.substr(0, method.find('/'));
  const auto found = std::find_if(kPolicies.begin(), kPolicies.end(),
                                  [&](const Policy& policy) { return policy.service == service; });
  return found == kPolicies.end() ? Access::kNobody : found->access;
}

Authorizer::Authorizer(std::string_view worker_token) : token_digest_(Sha256Hex(worker_token)) {}

absl::Status Authorizer::Check(std::string_view method,
                               const grpc::CallbackServerContext& context) const {
  switch (AccessOf(method)) {
    case Access::kEverybody:
      return absl::OkStatus();
    case Access::kNobody:
      return absl::PermissionDeniedError(absl::StrCat(std::string(method), " is not allowed"));
    case Access::kWorkerToken:
      break;
  }
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find("authorization");
  if (found == metadata.end()) {
    return WithReason(absl::UnauthenticatedError(
                          "needs the worker token as metadata `authorization: Bearer ...`"),
                      reason::kTokenMissing);
  }
  const std::string_view value(found->second.data(), found->second.size());
  const bool is_bearer = value.size() > kBearer.size() &&
                         absl::EqualsIgnoreCase(absl::string_view(value.data(), kBearer.size()),
                                                absl::string_view(kBearer.data(), kBearer.size()));
  const std::string_view token = is_bearer ? value.substr(kBearer.size()) : std::string_view();
  if (!EqualInConstantTime(Sha256Hex(token), token_digest_) || token.empty()) {
    return WithReason(absl::UnauthenticatedError("the worker token is wrong"),
                      reason::kTokenInvalid);
  }
  return absl::OkStatus();
}

}  // namespace nerf
