#pragma once

#include <array>
#include <cstddef>
#include <map>

#include "common/mutex.h"
#include "nerf/v1/worker_service.pb.h"

namespace grpc {
class ServerContextBase;
}

namespace nerf {

// The origins of the calls in progress, by their contexts: CallInterceptor draws them, handlers
// read them. Thread-safe.
class CallOrigins {
 public:
  void Set(const grpc::ServerContextBase* call, v1::CallOrigin origin);
  void Drop(const grpc::ServerContextBase* call);
  // Empty for an unknown call.
  v1::CallOrigin Of(const grpc::ServerContextBase* call) const;

 private:
  struct Shard {
    mutable Mutex mu;
    std::map<const grpc::ServerContextBase*, v1::CallOrigin> origins ABSL_GUARDED_BY(mu);
  };
  static constexpr size_t kNShards = 16;
  Shard& ShardOf(const grpc::ServerContextBase* call) const;

  mutable std::array<Shard, kNShards> shards_;
};

}  // namespace nerf
