#include "engine/methods/ngp/cuda/cuda_state.h"

#include <span>

#include "engine/base/check.h"
#include "engine/field/kernels/cuda/device.h"

namespace nerf {
namespace {

namespace cuda = kernels::cuda;

// The host's arrays, named as those of the device.
struct HostArrays {
  explicit HostArrays(NgpState* state)
      : HostArrays(state->parameters.arrays(), state->occupancy.values().span(),
                   state->occupancy.bits()) {}
  HostArrays(const NgpParameters::Arrays& parameters, std::span<float> values,
             std::span<uint64_t> blocks)
      : table(parameters.table),
        table_first(parameters.table_first),
        table_second(parameters.table_second),
        table_average(parameters.table_average),
        weights(parameters.weights),
        weights_first(parameters.weights_first),
        weights_second(parameters.weights_second),
        weights_average(parameters.weights_average),
        grid_values(values),
        grid_blocks(blocks) {}
  std::span<float> table, table_first, table_second, table_average;
  std::span<float> weights, weights_first, weights_second, weights_average;
  std::span<float> grid_values;
  std::span<uint64_t> grid_blocks;
};

// Calls copy(from's array, to's array) for each of them.
template <typename From, typename To, typename Body>
void ForEachArray(const From& from, To& to, Body body) {
  const auto copy = [&](const auto& one, auto& other) {
    NERF_CHECK(one.size() == other.size());
    body(one.data(), other.data(), one.size() * sizeof(*one.data()));
  };
  copy(from.table, to.table);
  copy(from.table_first, to.table_first);
  copy(from.table_second, to.table_second);
  copy(from.table_average, to.table_average);
  copy(from.weights, to.weights);
  copy(from.weights_first, to.weights_first);
  copy(from.weights_second, to.weights_second);
  copy(from.weights_average, to.weights_average);
  copy(from.grid_values, to.grid_values);
  copy(from.grid_blocks, to.grid_blocks);
}

void UploadArrays(const HostArrays& host, CudaState* device, kernels::Stream stream) {
  ForEachArray(host, *device, [&](const void* from, void* to, size_t byte_size) {
    if (byte_size > 0) cuda::CopyToDevice(to, from, byte_size, stream);
  });
  cuda::Synchronize(stream);
}
void DownloadArrays(const CudaState& device, HostArrays host, kernels::Stream stream) {
  ForEachArray(device, host, [&](const void* from, void* to, size_t byte_size) {
    if (byte_size > 0) cuda::CopyToHost(to, from, byte_size, stream);
  });
  cuda::Synchronize(stream);
}

}  // namespace

void Upload(NgpState* host, CudaState* device, kernels::Stream stream) {
  UploadArrays(HostArrays(host), device, stream);
}
void Upload(NgpParameters* host, CudaState* device, kernels::Stream stream) {
  UploadArrays(HostArrays(host->arrays(), {}, {}), device, stream);
}

void Download(const CudaState& device, NgpState* host, kernels::Stream stream) {
  DownloadArrays(device, HostArrays(host), stream);
}
void Download(const CudaState& device, NgpParameters* host, kernels::Stream stream) {
  DownloadArrays(device, HostArrays(host->arrays(), {}, {}), stream);
}

void DownloadModel(const CudaState& device, NgpState* host, kernels::Stream stream) {
  const HostArrays arrays(host);
  const auto copy = [&](const auto& from, const auto& to) {
    NERF_CHECK(from.size() == to.size());
    cuda::CopyToHost(to.data(), from.data(), from.byte_size(), stream);
  };
  copy(device.table_average, arrays.table_average);
  copy(device.weights_average, arrays.weights_average);
  copy(device.grid_blocks, arrays.grid_blocks);
  cuda::Synchronize(stream);
}

void Copy(const CudaState& from, CudaState* to, kernels::Stream stream) {
  ForEachArray(from, *to, [&](const void* source, void* target, size_t byte_size) {
    cuda::CopyOnDevice(target, source, byte_size, stream);
  });
}

}  // namespace nerf
