#include "engine/train/group/nccl/nccl_device_group.h"

#include <nccl.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "fmt/format.h"

namespace nerf {
namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point After(absl::Duration duration) {
  return Clock::now() + absl::ToChronoNanoseconds(duration);
}

class NcclDeviceGroup final : public DeviceGroup {
 public:
  NcclDeviceGroup(Group* group, const NcclOptions& options) : group_(group), options_(options) {
    Connect();
    TryExchanges();
  }
  // Nothing is under way; of a communicator that is destroyed NCCL would wait for the other ranks.
  ~NcclDeviceGroup() override { Abort(); }

  void SumScatter(int64_t* values, std::span<const ElementRange> parts, void* stream) override {
    Sum(values, parts, ncclInt64, stream);
  }
  void SumScatter(float* values, std::span<const ElementRange> parts, void* stream) override {
    Sum(values, parts, ncclFloat32, stream);
  }

  void AllGather(void* bytes, std::span<const ElementRange> parts, void* stream) override {
    auto* const array = static_cast<char*>(bytes);
    int64_t n_received = 0;
    Exchange(stream, [&] {
      for (int rank = 0; rank < group_->n_ranks(); ++rank) {
        const ElementRange part = parts[rank];
        if (part.size() == 0) continue;
        if (rank != group_->rank()) n_received += static_cast<int64_t>(part.size());
        Check(ncclBroadcast(array + part.begin, array + part.begin, part.size(), ncclUint8, rank,
                            comm_, Of(stream)));
      }
    });
    Count(static_cast<int64_t>(parts[group_->rank()].size()), n_received);
  }

  void Max(float* values, size_t n, void* stream) override {
    Exchange(stream, [&] {
      Check(ncclAllReduce(values, values, n, ncclFloat32, ncclMax, comm_, Of(stream)));
    });
    const auto n_bytes = static_cast<int64_t>(n * sizeof(float));
    Count(n_bytes, n_bytes);
  }

 private:
  static cudaStream_t Of(void* stream) { return static_cast<cudaStream_t>(stream); }

  template <typename T>
  void Sum(T* values, std::span<const ElementRange> parts, ncclDataType_t type, void* stream) {
    Exchange(stream, [&] {
      for (int rank = 0; rank < group_->n_ranks(); ++rank) {
        const ElementRange part = parts[rank];
        if (part.size() == 0) continue;
        T* const at = values + part.begin;
        Check(ncclReduce(at, at, part.size(), type, ncclSum, rank, comm_, Of(stream)));
      }
    });
    size_t n_others = 0;
    for (int rank = 0; rank < group_->n_ranks(); ++rank)
      n_others += rank == group_->rank() ? 0 : parts[rank].size();
    Count(static_cast<int64_t>(n_others * sizeof(T)),
          static_cast<int64_t>(parts[group_->rank()].size() * sizeof(T)));
  }

  // All ranks say whether they can go on, so that none waits for one that cannot.
  void Connect() {
    ncclUniqueId id = {};
    // NCCL reads it when it is first used. "=": not also names that begin like this one.
    const std::string name = "=" + (group_->interface().empty() ? "lo" : group_->interface());
    setenv("NCCL_SOCKET_IFNAME", name.c_str(), /*overwrite=*/1);
    ncclResult_t result = ncclSuccess;
    if (group_->rank() == 0) result = ncclGetUniqueId(&id);
    BroadcastValue(group_, 0, &result);
    Check(result);
    BroadcastValue(group_, 0, &id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;  // so that a call can be given up
    deadline_ = After(options_.connect_limit);
    Check(ncclCommInitRankConfig(&comm_, group_->n_ranks(), id, group_->rank(), &config));
    Settle();
  }

  // NCCL opens some connections with the first exchange, which a sandbox or a container may forbid.
  // Here ranks can still exchange in another way.
  void TryExchanges() {
    void* memory = nullptr;
    const cudaError_t result = cudaMalloc(&memory, sizeof(float));
    if (result != cudaSuccess) Fail(cudaGetErrorString(result));
    const auto free_memory = [](void* trial) { cudaFree(trial); };
    const std::unique_ptr<void, decltype(free_memory)> owner(memory, free_memory);
    Exchange(nullptr, [&] {
      Check(ncclReduce(memory, memory, 1, ncclFloat32, ncclSum, 0, comm_, nullptr));
      Check(ncclBroadcast(memory, memory, sizeof(float), ncclUint8, 0, comm_, nullptr));
      Check(ncclAllReduce(memory, memory, 1, ncclFloat32, ncclMax, comm_, nullptr));
    });
  }

  // Calls of `calls` as one exchange; returns when the work in the stream is done.
  void Exchange(void* stream, const std::function<void()>& calls) {
    if (comm_ == nullptr) throw GroupError("an exchange by NCCL has failed before");
    begin_ = Clock::now();
    deadline_ = After(options_.time_limit);
    Check(ncclGroupStart());
    calls();
    Check(ncclGroupEnd());
    Settle();
    while (true) {
      const cudaError_t state = cudaStreamQuery(Of(stream));
      if (state == cudaSuccess) break;
      if (state != cudaErrorNotReady) Fail(cudaGetErrorString(state));
      CheckAsync();
      WaitOrFail();
    }
  }

  // Calls of a communicator that does not block may still be under way when they return.
  void Settle() {
    while (CheckAsync() == ncclInProgress) WaitOrFail();
  }
  ncclResult_t CheckAsync() {
    ncclResult_t state = ncclSuccess;
    Check(ncclCommGetAsyncError(comm_, &state));
    Check(state);
    return state;
  }
  void WaitOrFail() {
    if (Clock::now() > deadline_) Fail("another rank does not answer");
    std::this_thread::yield();
  }
  void Check(ncclResult_t result) {
    if (result != ncclSuccess && result != ncclInProgress) Fail(ncclGetErrorString(result));
  }
  [[noreturn]] void Fail(const char* why) {
    const std::string reason = fmt::format("exchange by NCCL: {}", why);
    Abort();
    throw GroupError(reason);
  }
  void Abort() {
    if (comm_ != nullptr) ncclCommAbort(comm_);
    comm_ = nullptr;
  }

  void Count(int64_t n_sent, int64_t n_received) {
    const std::chrono::duration<double> seconds = Clock::now() - begin_;
    group_->AddTraffic({n_sent, n_received, 1, seconds.count()});
  }

  Group* const group_;
  const NcclOptions options_;
  ncclComm_t comm_ = nullptr;  // null after a failure
  Clock::time_point begin_, deadline_;
};

}  // namespace

std::unique_ptr<DeviceGroup> NewNcclDeviceGroup(Group* group, const NcclOptions& options) {
  return std::make_unique<NcclDeviceGroup>(group, options);
}

}  // namespace nerf
