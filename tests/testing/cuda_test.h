#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/base/buffer.h"
#include "engine/base/half_float.h"
#include "engine/field/kernels/cuda/device.h"
#include "gtest/gtest.h"
#ifdef NERF_CUDA_EMULATION
#include "tests/testing/cuda_emulation/block_runner.h"
#endif

namespace nerf {

// Where CUDA kernels run: on a device, or under the host emulation with its threads in ascending
// and in descending order, to detect results that depend on the order.
enum class CudaPlace { kDevice, kRisingThreads, kFallingThreads };

// A test that runs at each place of this build: derive the fixture, write TEST_P, and name it in
// NERF_INSTANTIATE_CUDA_PLACES. Skipped where there is no device.
class CudaTest : public testing::TestWithParam<CudaPlace> {
 protected:
  void SetUp() override {
    if (!kernels::cuda::IsAvailable())
      GTEST_SKIP() << "no CUDA device: " << kernels::cuda::WhyUnavailable();
#ifdef NERF_CUDA_EMULATION
    cuda_emulation::SetThreadOrder(GetParam() == CudaPlace::kRisingThreads
                                       ? cuda_emulation::ThreadOrder::kRising
                                       : cuda_emulation::ThreadOrder::kFalling);
#endif
    owned_stream_ = std::make_unique<kernels::cuda::OwnedStream>();
    stream_ = owned_stream_->get();
  }

  kernels::Stream stream_;

 private:
  std::unique_ptr<kernels::cuda::OwnedStream> owned_stream_;
};

inline std::vector<CudaPlace> CudaPlaces() {
#ifdef NERF_CUDA_EMULATION
  return {CudaPlace::kRisingThreads, CudaPlace::kFallingThreads};
#else
  return {CudaPlace::kDevice};
#endif
}

inline std::string CudaPlaceName(const testing::TestParamInfo<CudaPlace>& place) {
  const char* const names[] = {"Device", "RisingThreads", "FallingThreads"};
  return names[static_cast<int>(place.param)];
}

// An array on the device, initialized from the host.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t n) : buffer_(n, kernels::cuda::DeviceAllocator()) {}
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    Copy([&](kernels::Stream stream) {
      kernels::cuda::CopyToDevice(buffer_.data(), values.data(), buffer_.byte_size(), stream);
    });
  }
  explicit DeviceArray(std::initializer_list<T> values) : DeviceArray(std::vector<T>(values)) {}
  T* data() { return buffer_.data(); }
  const T* data() const { return buffer_.data(); }

  // Waits for the work in `stream` first.
  std::vector<T> Download(kernels::Stream after) const {
    kernels::cuda::Synchronize(after);
    std::vector<T> values(buffer_.size());
    Copy([&](kernels::Stream stream) {
      kernels::cuda::CopyToHost(values.data(), buffer_.data(), buffer_.byte_size(), stream);
    });
    return values;
  }

 private:
  template <typename Body>
  void Copy(Body body) const {
    if (buffer_.empty()) return;
    const kernels::cuda::OwnedStream stream;
    body(stream.get());
    kernels::cuda::Synchronize(stream.get());
  }
  Buffer<T> buffer_;
};

// Values as the kernels hold them, and back.
template <typename T>
std::vector<T> Narrow(const std::vector<float>& values) {
  std::vector<T> narrow(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if constexpr (std::is_same_v<T, Half>) {
      narrow[i] = HalfFromFloat(values[i]);
    } else {
      narrow[i] = values[i];
    }
  }
  return narrow;
}
inline float Widened(float value) { return value; }
inline float Widened(Half value) { return FloatFromHalf(value); }
template <typename T>
std::vector<double> Wide(const std::vector<T>& values) {
  std::vector<double> wide(values.size());
  for (size_t i = 0; i < values.size(); ++i) wide[i] = Widened(values[i]);
  return wide;
}

}  // namespace nerf

#define NERF_INSTANTIATE_CUDA_PLACES(Fixture) \
  INSTANTIATE_TEST_SUITE_P(Cuda, Fixture, testing::ValuesIn(CudaPlaces()), CudaPlaceName)
