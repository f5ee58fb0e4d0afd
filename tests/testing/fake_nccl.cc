// The part of NCCL's interface that engine/train/group/nccl uses, for ranks that are threads:
// arrays are in host memory, and an exchange is done when the group of calls ends. Calls answer
// ncclInProgress once, as those of a communicator that does not block may.
#include "tests/testing/fake_nccl.h"

#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/mutex.h"

namespace {

struct Call {
  enum class Kind { kReduce, kBroadcast, kAllReduce } kind = Kind::kReduce;
  void* bytes = nullptr;
  size_t count = 0;
  ncclDataType_t type = ncclUint8;
  ncclRedOp_t operation = ncclSum;
  int root = 0;
};

// The ranks that share an id.
struct World {
  nerf::Mutex mu;
  nerf::CondVar changed;
  int n_ranks = 0, n_arrived = 0, round = 0;
  std::vector<const Call*> calls;  // of each rank, of the exchange under way
};

template <typename T>
void Combine(const std::vector<const Call*>& calls, std::vector<std::byte>* result) {
  const Call& first = *calls[0];
  std::vector<T> values(first.count);
  std::memcpy(values.data(), first.bytes, first.count * sizeof(T));
  for (size_t rank = 1; rank < calls.size(); ++rank) {
    const T* const others = static_cast<const T*>(calls[rank]->bytes);
    for (size_t i = 0; i < first.count; ++i)
      values[i] =
          first.operation == ncclMax ? std::max(values[i], others[i]) : values[i] + others[i];
  }
  result->resize(first.count * sizeof(T));
  std::memcpy(result->data(), values.data(), result->size());
}

// Done by the last rank that arrives, for all.
void Run(const std::vector<const Call*>& calls) {
  const Call& first = *calls[0];
  if (first.kind == Call::Kind::kBroadcast) {
    for (const Call* call : calls) {
      if (call->bytes != calls[first.root]->bytes)
        std::memcpy(call->bytes, calls[first.root]->bytes, first.count);
    }
    return;
  }
  std::vector<std::byte> result;
  first.type == ncclInt64 ? Combine<int64_t>(calls, &result) : Combine<float>(calls, &result);
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    if (first.kind == Call::Kind::kReduce && static_cast<int>(rank) != first.root) continue;
    std::memcpy(calls[rank]->bytes, result.data(), result.size());
  }
}

nerf::Mutex& WorldsMutex() {
  static nerf::Mutex& mu = *new nerf::Mutex;
  return mu;
}
std::map<uint64_t, std::unique_ptr<World>>& Worlds() {
  static auto& worlds = *new std::map<uint64_t, std::unique_ptr<World>>;
  return worlds;
}

std::atomic<int> open_communicators = 0;
std::atomic<bool> refuse_to_connect = false, refuse_to_exchange = false;
thread_local bool others_are_lost = false;
thread_local bool in_progress = false;
thread_local std::vector<std::pair<ncclComm_t, Call>> grouped;

}  // namespace

struct ncclComm {
  World* world = nullptr;
  int rank = 0;
};

namespace {

void Meet(ncclComm_t comm, const Call& call) {
  World& world = *comm->world;
  const nerf::MutexLock lock(world.mu);
  world.calls[comm->rank] = &call;
  const int round = world.round;
  if (++world.n_arrived == world.n_ranks) {
    Run(world.calls);
    world.n_arrived = 0;
    ++world.round;
    world.changed.NotifyAll();
    return;
  }
  while (world.round == round) world.changed.Wait(world.mu);
}

ncclResult_t Add(ncclComm_t comm, const Call& call) {
  grouped.emplace_back(comm, call);
  return ncclSuccess;
}

}  // namespace

namespace nerf::fake_nccl {

void LoseOtherRanks() { others_are_lost = true; }
void RefuseToConnect(bool refuse) { refuse_to_connect = refuse; }
void RefuseToExchange(bool refuse) { refuse_to_exchange = refuse; }
int OpenCommunicators() { return open_communicators; }

}  // namespace nerf::fake_nccl

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<uint64_t> next = 1;
  const uint64_t number = next++;
  std::memcpy(id, &number, sizeof(number));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int n_ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidArgument;
  if (refuse_to_connect) return ncclInvalidUsage;
  uint64_t number = 0;
  std::memcpy(&number, &id, sizeof(number));
  const nerf::MutexLock lock(WorldsMutex());
  std::unique_ptr<World>& world = Worlds()[number];
  if (world == nullptr) {
    world = std::make_unique<World>();
    world->n_ranks = n_ranks;
    world->calls.resize(n_ranks);
  }
  *comm = new ncclComm{world.get(), rank};
  ++open_communicators;
  in_progress = true;
  return ncclInProgress;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  delete comm;
  --open_communicators;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* state) {
  *state = std::exchange(in_progress, false) ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclInvalidUsage  ? "invalid usage"
         : result == ncclSystemError ? "system error"
                                     : "another error";
}

ncclResult_t ncclGroupStart() { return ncclSuccess; }
ncclResult_t ncclGroupEnd() {
  in_progress = true;
  const auto calls = std::exchange(grouped, {});
  if (refuse_to_exchange) return ncclSystemError;
  if (others_are_lost) return ncclInProgress;
  for (const auto& [comm, call] : calls) Meet(comm, call);
  return ncclInProgress;
}

ncclResult_t ncclReduce(const void*, void* bytes, size_t count, ncclDataType_t type,
                        ncclRedOp_t operation, int root, ncclComm_t comm, cudaStream_t) {
  return Add(comm, {Call::Kind::kReduce, bytes, count, type, operation, root});
}
ncclResult_t ncclBroadcast(const void*, void* bytes, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t) {
  return Add(comm, {Call::Kind::kBroadcast, bytes, count, type, ncclSum, root});
}
ncclResult_t ncclAllReduce(const void*, void* bytes, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t) {
  return Add(comm, {Call::Kind::kAllReduce, bytes, count, type, operation, 0});
}

cudaError_t cudaMalloc(void** memory, size_t size) {
  *memory = calloc(1, size);
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  free(memory);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t) {
  return others_are_lost ? cudaErrorNotReady : cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) { return "an error of CUDA"; }

}  // extern "C"
