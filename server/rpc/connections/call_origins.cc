#include "server/rpc/connections/call_origins.h"

#include <functional>
#include <utility>

namespace nerf {

CallOrigins::Shard& CallOrigins::ShardOf(const grpc::ServerContextBase* call) const {
  // Contexts lie apart by more than 64 bytes.
  return shards_[(std::hash<const void*>()(call) / 64) % kNShards];
}

void CallOrigins::Set(const grpc::ServerContextBase* call, v1::CallOrigin origin,
                      std::string peer) {
  Shard& shard = ShardOf(call);
  MutexLock lock(shard.mu);
  shard.calls[call] = {std::move(origin), {.peer = std::move(peer), .principal = ""}};
}

void CallOrigins::SetPrincipal(const grpc::ServerContextBase* call, std::string principal) {
  Shard& shard = ShardOf(call);
  MutexLock lock(shard.mu);
  const auto found = shard.calls.find(call);
  if (found != shard.calls.end()) found->second.caller.principal = std::move(principal);
}

void CallOrigins::Drop(const grpc::ServerContextBase* call) {
  Shard& shard = ShardOf(call);
  MutexLock lock(shard.mu);
  shard.calls.erase(call);
}

v1::CallOrigin CallOrigins::Of(const grpc::ServerContextBase* call) const {
  const Shard& shard = ShardOf(call);
  MutexLock lock(shard.mu);
  const auto found = shard.calls.find(call);
  return found == shard.calls.end() ? v1::CallOrigin() : found->second.origin;
}

Caller CallOrigins::CallerOf(const grpc::ServerContextBase* call) const {
  const Shard& shard = ShardOf(call);
  MutexLock lock(shard.mu);
  const auto found = shard.calls.find(call);
  return found == shard.calls.end() ? Caller() : found->second.caller;
}

}  // namespace nerf
