#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
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
  using OnRefused = std::function<void(std::string_view reason)>;
  using OnKnown = std::function<void(const grpc::CallbackServerContext&, const Principal&)>;
  // `access` outlives it. `on_refused` is told the reason of each refused call, `on_known` of
  // each one with a valid token, and whom it is from; both from any thread.
  explicit Authorizer(const AccessControl* access, OnRefused on_refused = {}, OnKnown on_known = {})
      : access_(*access), on_refused_(std::move(on_refused)), on_known_(std::move(on_known)) {}

  // Errors: Unauthenticated TOKEN_MISSING, TOKEN_INVALID, TOKEN_EXPIRED; PermissionDenied
  // ACCESS_DENIED.
  absl::StatusOr<Principal> Check(std::string_view method,
                                  const grpc::CallbackServerContext& context,
                                  const google::protobuf::Message& request) const;

  // The same for a stream of requests: before the first, without resources, ...
  absl::StatusOr<Principal> Begin(std::string_view method,
                                  const grpc::CallbackServerContext& context) const;
  // ... and for each request that names one.
  absl::Status CheckRequest(std::string_view method, const Principal& principal,
                            const google::protobuf::Message& request) const;
  // Whether the value of an Authorization header has a valid token. Errors: Unauthenticated, as
  // Check; not counted.
  absl::Status CheckToken(std::string_view authorization) const;
  // Counts an error that refuses a call for who makes it, and no other; returns it.
  absl::Status Counted(absl::Status refusal) const;

  // The token of a call, and whether a stream that was begun with it may go on: an error after it
  // has expired or was revoked.
  static std::string TokenOf(const grpc::CallbackServerContext& context);
  absl::Status CheckAgain(std::string_view token) const;

 private:
  absl::StatusOr<Principal> Authenticate(const grpc::CallbackServerContext& context) const;

  const AccessControl& access_;
  const OnRefused on_refused_;
  const OnKnown on_known_;
};

// The resources that a request names in the fields of its method's policy.
std::vector<ResourceRef> ResourcesOf(const MethodPolicy& policy,
                                     const google::protobuf::Message& request);

// The text at a path of fields such as "job.training.scene"; empty where it is not set.
std::string TextAt(const google::protobuf::Message& whole, std::string_view path);

// The value of a metadata entry; empty without one.
std::string_view MetadataOf(const grpc::CallbackServerContext& context, std::string_view key);

}  // namespace nerf
