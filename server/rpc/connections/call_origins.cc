#include "server/rpc/connections/call_origins.h"

#include <functional>
#include <utility>

namespace nerf {

CallOrigins::Shard& CallOrigins::ShardOf(const grpc::ServerContextBase* call) const {
  // Contexts lie apart by more than 64 bytes.
  return shards_[(std::hash<const void*>()(call) / 64) % kNShards];
}

void CallOrigins::Set(const grpc::ServerContextBase* call, v1::CallOrigin origin) {
  Shard& shard = ShardOf(call);
  MutexLock lock(shard.mu);
  shard.origins[call] = std::move(origin);
}

void CallOrigins::Drop(const grpc::ServerContextBase* call) {
  Shard& shard = ShardOf(call);
  MutexLock lock(shard.mu);
  shard.origins.erase(call);
}

v1::CallOrigin CallOrigins::Of(const grpc::ServerContextBase* call) const {
  const Shard& shard = ShardOf(call);
  MutexLock lock(shard.mu);
  const auto found = shard.origins.find(call);
  return found == shard.origins.end() ? v1::CallOrigin() : found->second;
}

}  // namespace nerf
