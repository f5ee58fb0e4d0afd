#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

namespace grpc {
class ServerCredentials;
}

namespace nerf {

// Refuses calls without a valid token as soon as gRPC has their headers, before it reads a message:
// gRPC 1.51 hands a call to its handler only with the whole first message. Health needs no token;
// reflection, which checks none itself, does. Thread-safe.
//
// gRPC sends no details of an error with such a refusal. So the first calls of a connection reach
// their handlers all the same, which refuse them with the reason (ErrorInfo).
class TokenGate {
 public:
  // Checks the value of an `authorization` entry; empty without one. Errors: Unauthenticated.
  using Check = std::function<absl::Status(std::string_view authorization)>;
  // Is told each error with which the gate has refused a call.
  using OnRefused = std::function<void(const absl::Status&)>;
  TokenGate(Check check, OnRefused on_refused)
      : check_(std::move(check)), on_refused_(std::move(on_refused)) {}

  // So many calls without a token reach their handlers, of each connection.
  static constexpr size_t kMaxForwarded = 8;

  // Credentials that ask the gate about each call: these, or, for nullptr, those of plaintext.
  static std::shared_ptr<grpc::ServerCredentials> Guard(
      std::shared_ptr<TokenGate> gate, std::shared_ptr<grpc::ServerCredentials> credentials);

  // Whether a call may go on. `forward` counts a call of the same connection that is forwarded
  // without a token, and says whether it is one of the first kMaxForwarded.
  absl::Status Admit(std::string_view path, std::string_view authorization,
                     const std::function<bool()>& forward) const;

 private:
  const Check check_;
  const OnRefused on_refused_;
};

}  // namespace nerf
