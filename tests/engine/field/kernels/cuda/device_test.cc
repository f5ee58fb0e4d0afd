#include "engine/field/kernels/cuda/device.h"

#include <numeric>

#include "engine/field/kernels/adam.h"
#include "tests/testing/cuda_test.h"

namespace nerf::kernels::cuda {
namespace {

class CudaDeviceTest : public CudaTest {};
NERF_INSTANTIATE_CUDA_PLACES(CudaDeviceTest);

TEST_P(CudaDeviceTest, MemoryIsZeroedAndCopiesArriveInOrder) {
  DeviceArray<int> array(1000);
  EXPECT_EQ(array.Download(stream_), std::vector<int>(1000));
  std::vector<int> there(1000), back(1000);
  std::iota(there.begin(), there.end(), 0);
  CopyToDevice(array.data(), there.data(), 1000 * sizeof(int), stream_);
  Fill(array.data(), 0, 500 * sizeof(int), stream_);
  CopyToHost(back.data(), array.data(), 1000 * sizeof(int), stream_);
  Synchronize(stream_);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(back[i], i < 500 ? 0 : i);
}

TEST_P(CudaDeviceTest, FailedAllocationLeavesTheDeviceUsable) {
  const DeviceDescription device = DescribeDevice(0);
  EXPECT_GE(device.compute_capability, 80);
  EXPECT_THROW(Buffer<char>(2 * device.total_bytes, DeviceAllocator()), CudaOutOfMemory);
  DeviceArray<int> array(std::vector<int>{1, 2, 3});
  EXPECT_EQ(array.Download(stream_), (std::vector<int>{1, 2, 3}));
}

TEST_P(CudaDeviceTest, GraphsReadHostMemoryWhenTheyRun) {
  // As in a training step: copy settings to the device, run a kernel, copy results back, recorded
  // once.
  Buffer<float> settings(1, PinnedAllocator()), result(1, PinnedAllocator());
  DeviceArray<float> parameter(1), average(1);
  const Graph graph(stream_, [&] {
    CopyToDevice(parameter.data(), settings.data(), sizeof(float), stream_);
    MovingAverage(
        {.decay = 0.5f, .n = 1, .parameters = parameter.data(), .averages = average.data()},
        stream_);
    CopyToHost(result.data(), average.data(), sizeof(float), stream_);
  });
  EXPECT_EQ(result[0], 0) << "recording runs nothing";
  for (float expected : {4.0f, 6.0f, 7.0f}) {
    settings[0] = 8;
    graph.Launch(stream_);
    Synchronize(stream_);
    EXPECT_EQ(result[0], expected);
  }
}

TEST_P(CudaDeviceTest, GraphMayForkIntoTwoStreamsAndJoin) {
  const OwnedStream side;
  Buffer<float> result(2, PinnedAllocator());
  DeviceArray<float> ones({1.0f}), left(1), right(1);
  const auto take_half = [&](DeviceArray<float>& average, kernels::Stream stream) {
    MovingAverage({.decay = 0.5f, .n = 1, .parameters = ones.data(), .averages = average.data()},
                  stream);
  };
  const Graph graph(stream_, [&] {
    take_half(left, stream_);
    WaitFor(side.get(), stream_);
    take_half(right, side.get());
    take_half(left, stream_);
    WaitFor(stream_, side.get());
    CopyToHost(&result[0], left.data(), sizeof(float), stream_);
    CopyToHost(&result[1], right.data(), sizeof(float), stream_);
  });
  EXPECT_EQ(right.Download(side.get())[0], 0) << "recording runs nothing";
  graph.Launch(stream_);
  Synchronize(stream_);
  EXPECT_EQ(result[0], 0.75f);
  EXPECT_EQ(result[1], 0.5f);
}

}  // namespace
}  // namespace nerf::kernels::cuda
