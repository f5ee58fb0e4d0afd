#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>

#include "common/mutex.h"
#include "nerf/v1/worker_service.pb.h"

namespace grpc {
class ServerContextBase;
}

namespace nerf {

// Whom a call is from, for logs.
struct Caller {
  std::string peer;       // as gRPC names it; "web:ADDRESS" for a call of the page's port
  std::string principal;  // empty until its token is known to be valid
};

// The origins of the calls in progress, by their contexts: CallInterceptor draws them, handlers
// read them. Thread-safe.
class CallOrigins {
 public:
  void Set(const grpc::ServerContextBase* call, v1::CallOrigin origin, std::string peer);
  // Of a call that is known.
  void SetPrincipal(const grpc::ServerContextBase* call, std::string principal);
  void Drop(const grpc::ServerContextBase* call);
  // Empty for an unknown call.
  v1::CallOrigin Of(const grpc::ServerContextBase* call) const;
  Caller CallerOf(const grpc::ServerContextBase* call) const;

 private:
  struct Call {
    v1::CallOrigin origin;
    Caller caller;
  };
  struct Shard {
    mutable Mutex mu;
    std::map<const grpc::ServerContextBase*, Call> calls ABSL_GUARDED_BY(mu);
  };
  static constexpr size_t kNShards = 16;
  Shard& ShardOf(const grpc::ServerContextBase* call) const;

  mutable std::array<Shard, kNShards> shards_;
};

}  // namespace nerf
