#include "engine/train/ranks/staged_device_group.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/base/check.h"
#include "engine/field/kernels/cuda/device.h"
#include "fmt/format.h"

namespace nerf {
namespace {

namespace cuda = kernels::cuda;

class StagedDeviceGroup final : public DeviceGroup {
 public:
  explicit StagedDeviceGroup(Group* group) : group_(group) {}

  void SumScatter(int64_t* values, std::span<const ElementRange> parts, void* stream) override {
    Combine(values, parts, {stream}, [](int64_t a, int64_t b) {
      return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    });
  }
  void SumScatter(float* values, std::span<const ElementRange> parts, void* stream) override {
    Combine(values, parts, {stream}, [](float a, float b) { return a + b; });
  }
  void AllGather(void* bytes, std::span<const ElementRange> parts, void* stream) override {
    NERF_CHECK(parts.size() == static_cast<size_t>(group_->n_ranks()));
    auto* const array = static_cast<std::byte*>(bytes);
    const ElementRange own = parts[group_->rank()];
    staged_.resize(own.size());
    cuda::CopyToHost(staged_.data(), array + own.begin, own.size(), {stream});
    cuda::Synchronize({stream});
    nerf::AllGather(group_, staged_, &from_);
    for (int rank = 0; rank < group_->n_ranks(); ++rank) {
      if (rank == group_->rank()) continue;
      const Bytes block = BlockOf(rank, parts[rank].size());
      cuda::CopyToDevice(array + parts[rank].begin, block.data(), block.size(), {stream});
    }
    cuda::Synchronize({stream});
  }
  void Max(float* values, size_t n, void* stream) override {
    std::vector<ElementRange> parts, byte_parts;
    const auto n_ranks = static_cast<size_t>(group_->n_ranks());
    for (size_t rank = 0; rank < n_ranks; ++rank) {
      parts.push_back({n * rank / n_ranks, n * (rank + 1) / n_ranks});
      byte_parts.push_back({parts[rank].begin * sizeof(float), parts[rank].end * sizeof(float)});
    }
    Combine(values, parts, {stream}, [](float a, float b) { return std::max(a, b); });
    AllGather(values, byte_parts, stream);
  }

 private:
  // Combines this rank's part with those of the others, in the order of the ranks.
  template <typename T, typename Operation>
  void Combine(T* values, std::span<const ElementRange> parts, kernels::Stream stream,
               Operation operation) {
    const int n_ranks = group_->n_ranks();
    NERF_CHECK(parts.size() == static_cast<size_t>(n_ranks));
    size_t end = 0;
    for (const ElementRange& part : parts) end = std::max(end, part.end);
    staged_.resize(end * sizeof(T));
    cuda::CopyToHost(staged_.data(), values, staged_.size(), stream);
    cuda::Synchronize(stream);
    const auto bytes_of = [&](const ElementRange& part) {
      return Bytes(staged_).subspan(part.begin * sizeof(T), part.size() * sizeof(T));
    };
    std::vector<Bytes> to;
    for (const ElementRange& part : parts) to.push_back(bytes_of(part));
    AllToAll(group_, to, &from_);
    const ElementRange own = parts[group_->rank()];
    std::vector<T> sums(own.size()), others(own.size());
    for (int rank = 0; rank < n_ranks; ++rank) {
      const bool is_own = rank == group_->rank();
      const Bytes block = is_own ? bytes_of(own) : BlockOf(rank, own.size() * sizeof(T));
      std::vector<T>* const into = rank == 0 ? &sums : &others;
      if (!block.empty()) std::memcpy(into->data(), block.data(), block.size());
      if (rank == 0) continue;
      std::transform(sums.begin(), sums.end(), others.begin(), sums.begin(), operation);
    }
    cuda::CopyToDevice(values + own.begin, sums.data(), sums.size() * sizeof(T), stream);
    cuda::Synchronize(stream);
  }

  Bytes BlockOf(int rank, size_t byte_size) const {
    const Bytes block = from_[rank].bytes();
    if (block.size() != byte_size) {
      throw GroupError(
          fmt::format("rank {} sent {} bytes in place of {}", rank, block.size(), byte_size), rank);
    }
    return block;
  }

  Group* const group_;
  std::vector<std::byte> staged_;
  std::vector<ByteBlock> from_;
};

}  // namespace

std::unique_ptr<DeviceGroup> NewStagedDeviceGroup(Group* group) {
  return std::make_unique<StagedDeviceGroup>(group);
}

}  // namespace nerf
