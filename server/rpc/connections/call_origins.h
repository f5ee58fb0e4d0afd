#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>

#include "common/mutex.h"

namespace grpc {
class ServerContextBase;
}

namespace nerf {

// What names a call in logs, and in the work that it causes.
struct CallOrigin {
  std::string traceparent;  // the server's span of the call
  std::string request_id;   // drawn by the server
};

// The origins of the calls in progress, by their contexts: CallInterceptor draws them, handlers
// read them. Thread-safe.
class CallOrigins {
 public:
  void Set(const grpc::ServerContextBase* call, CallOrigin origin);
  void Drop(const grpc::ServerContextBase* call);
  // Empty for an unknown call.
  CallOrigin Of(const grpc::ServerContextBase* call) const;

 private:
  struct Shard {
    mutable Mutex mu;
    std::map<const grpc::ServerContextBase*, CallOrigin> origins ABSL_GUARDED_BY(mu);
  };
  static constexpr size_t kNShards = 16;
  Shard& ShardOf(const grpc::ServerContextBase* call) const;

  mutable std::array<Shard, kNShards> shards_;
};

}  // namespace nerf
