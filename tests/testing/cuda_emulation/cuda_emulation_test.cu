// Tests the emulation itself: correct kernels give CUDA's results, and errors in kernels are
// detected.

#include <numeric>
#include <vector>

#include "engine/base/buffer.h"
#include "engine/field/kernels/cuda/device.h"
#include "engine/field/kernels/cuda/device_intrinsics.cuh"
#include "engine/field/kernels/cuda/launch.cuh"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/random_floats.h"

namespace nerf::kernels::cuda {
namespace {

using cuda_emulation::DivergenceError;
using cuda_emulation::ThreadOrder;
using testing::Each;
using testing::HasSubstr;

class CudaEmulationTest : public testing::TestWithParam<ThreadOrder> {
 protected:
  void SetUp() override { cuda_emulation::SetThreadOrder(GetParam()); }
  void TearDown() override { cuda_emulation::SetThreadOrder(ThreadOrder::kRising); }
  OwnedStream stream_;
};
INSTANTIATE_TEST_SUITE_P(Orders, CudaEmulationTest,
                         testing::Values(ThreadOrder::kRising, ThreadOrder::kFalling),
                         [](const auto& info) {
                           return info.param == ThreadOrder::kRising ? "Rising" : "Falling";
                         });

struct IntParams {
  int n;
  int* values;
};

__global__ void ReverseInBlock(IntParams p) {
  int* const staged = SharedMemory<int>();
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  staged[threadIdx.x] = p.values[at];
  __syncthreads();
  p.values[at] = staged[blockDim.x - 1 - threadIdx.x];
}

TEST_P(CudaEmulationTest, BarriersLetSharedMemoryPassBetweenThreads) {
  std::vector<int> values(3 * 70);
  std::iota(values.begin(), values.end(), 0);
  Launch("reverse", ReverseInBlock, 3, 70, 70 * sizeof(int), stream_.get(),
         IntParams{210, values.data()});
  for (int i = 0; i < 210; ++i) EXPECT_EQ(values[i], i / 70 * 70 + 69 - i % 70);
}

__global__ void ReverseWithoutBarrier(IntParams p) {
  int* const staged = SharedMemory<int>();
  staged[threadIdx.x] = p.values[threadIdx.x];
  p.values[threadIdx.x] = staged[blockDim.x - 1 - threadIdx.x];
}

TEST_P(CudaEmulationTest, AMissingBarrierShows) {
  std::vector<int> values(64, 1);
  Launch("reverse", ReverseWithoutBarrier, 1, 64, 64 * sizeof(int), stream_.get(),
         IntParams{64, values.data()});
  EXPECT_THAT(values, testing::Contains(-1)) << "what the other half had not written yet";
}

__device__ inline int* SharedOfInlineFunction() {
  __shared__ int values[4];
  return values;
}

__global__ void ReadThenWriteShared(IntParams p) {
  __shared__ int value;
  int* const other = SharedOfInlineFunction();
  p.values[blockIdx.x] = value & other[1];
  value = other[1] = 7;
}

TEST_P(CudaEmulationTest, SharedVariablesAreNotANumberWhenABlockBegins) {
  std::vector<int> values(3, 1);
  Launch("read", ReadThenWriteShared, 3, 1, 0, stream_.get(), IntParams{3, values.data()});
  EXPECT_THAT(values, Each(-1)) << "neither zeros nor what the block before left";
}

__global__ void WarpSum(IntParams p) {
  int sum = p.values[threadIdx.x];
  for (int delta = 16; delta > 0; delta /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, delta);
  const unsigned odd = __ballot_sync(0xffffffffu, threadIdx.x % 2 == 1);
  const int before = __shfl_up_sync(0xffffffffu, static_cast<int>(threadIdx.x), 1);
  p.values[threadIdx.x] = sum + (odd == 0xaaaaaaaau ? 1000 : 0) + 10000 * before;
}

TEST_P(CudaEmulationTest, ShufflesAndVotesStayWithinTheWarp) {
  std::vector<int> values(64);
  for (int i = 0; i < 64; ++i) values[i] = i < 32 ? 1 : 2;
  Launch("warp_sum", WarpSum, 1, 64, 0, stream_.get(), IntParams{64, values.data()});
  for (int i = 0; i < 64; ++i) {
    const int before = i % 32 == 0 ? i : i - 1;
    EXPECT_EQ(values[i], (i < 32 ? 32 : 64) + 1000 + 10000 * before) << i;
  }
}

__global__ void BarrierForSome(IntParams p) {
  if (static_cast<int>(threadIdx.x) < p.n) __syncthreads();
}

TEST_P(CudaEmulationTest, BarrierThatSomeThreadsNeverReachIsReported) {
  try {
    Launch("some", BarrierForSome, 1, 96, 0, stream_.get(), IntParams{40, nullptr});
    FAIL() << "no report";
  } catch (const DivergenceError& e) {
    EXPECT_THAT(e.what(), HasSubstr("kernel some, block 0"));
    EXPECT_THAT(e.what(), HasSubstr("cuda_emulation_test.cu"));
    EXPECT_THAT(e.what(), HasSubstr("ended: 40 41"));
  }
}

__global__ void TwoBarriers(IntParams p) {
  if (static_cast<int>(threadIdx.x) < p.n) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

TEST_P(CudaEmulationTest, BarriersInTwoBranchesDoNotMatch) {
  EXPECT_THROW(Launch("two", TwoBarriers, 1, 96, 0, stream_.get(), IntParams{40, nullptr}),
               DivergenceError);
  EXPECT_NO_THROW(Launch("two", TwoBarriers, 1, 96, 0, stream_.get(), IntParams{96, nullptr}))
      << "a report leaves the emulation usable";
}

__global__ void ShuffleForSome(IntParams p) {
  if (static_cast<int>(threadIdx.x) < p.n) p.values[0] = __shfl_sync(0xffffffffu, p.n, 0);
}

TEST_P(CudaEmulationTest, AShuffleThatLanesOfItsMaskNeverReachIsReported) {
  int value = 0;
  EXPECT_THROW(Launch("some", ShuffleForSome, 1, 32, 0, stream_.get(), IntParams{31, &value}),
               DivergenceError);
  EXPECT_THROW(Launch("some", ShuffleForSome, 1, 31, 0, stream_.get(), IntParams{31, &value}),
               DivergenceError)
      << "a warp that is not full";
}

__global__ void CountUp(IntParams p) { atomicAdd(p.values, p.n); }

TEST_P(CudaEmulationTest, GraphsRunWhatTheyRecordedEachTimeTheyAreLaunched) {
  Buffer<int> value(1, DeviceAllocator());
  int host = -1;
  const Graph graph(stream_.get(), [&] {
    Fill(value.data(), 0, sizeof(int), stream_.get());
    Launch("count", CountUp, 2, 3, 0, stream_.get(), IntParams{7, value.data()});
    CopyToHost(&host, value.data(), sizeof(int), stream_.get());
  });
  EXPECT_EQ(host, -1) << "recording runs nothing";
  for (int i = 0; i < 2; ++i) {
    graph.Launch(stream_.get());
    EXPECT_EQ(host, 42);
    host = 0;
  }
}

TEST_P(CudaEmulationTest, MemoryBeyondTheDeviceIsRefusedAndTheRestStaysUsable) {
  const size_t before = cuda_emulation::DeviceBytesInUse();
  cuda_emulation::SetDeviceBytes(before + 1000);
  EXPECT_THROW(Buffer<char>(2000, DeviceAllocator()), CudaOutOfMemory);
  EXPECT_EQ(cuda_emulation::DeviceBytesInUse(), before);
  EXPECT_NO_THROW(Buffer<char>(1000, DeviceAllocator()));
  cuda_emulation::SetDeviceBytes(size_t{1} << 30);
}

// A product of a 16x16 and a 16x8 matrix out of shared memory, three ways to hold them.
struct ProductParams {
  const float* left;   // [16 m][16 k]
  const float* right;  // [16 k][8 n]
  float* product;      // [16 m][8 n]
  bool right_is_transposed, by_shuffles;
};

template <typename T>
__global__ void Product(ProductParams p) {
  constexpr int kStride = 24;
  T* const left = SharedMemory<T>();     // [k][m]
  T* const right = left + 16 * kStride;  // [k][n], or [n][k]
  for (int i = threadIdx.x; i < 256; i += 32)
    left[i % 16 * kStride + i / 16] = FromFloat<T>(p.left[i]);
  for (int i = threadIdx.x; i < 128; i += 32) {
    const int k = i / 8, n = i % 8;
    right[p.right_is_transposed ? n * kStride + k : k * kStride + n] = FromFloat<T>(p.right[i]);
  }
  __syncwarp();
  const FragmentA<T> a = LoadTransposedA(left, kStride);
  const FragmentB<T> b =
      p.right_is_transposed ? LoadTransposedB(right, kStride) : LoadB(right, kStride);
  FragmentC c;
  if constexpr (std::is_same_v<T, float>) {
    if (p.by_shuffles) {
      MultiplyAddByShuffles(a.r, b.r, &c);
    } else {
      MultiplyAdd(a, b, &c);
    }
  } else {
    MultiplyAdd(a, b, &c);
  }
  const int g = threadIdx.x / 4, n = 2 * (threadIdx.x % 4);
  for (int i = 0; i < 4; ++i) p.product[(g + 8 * (i / 2)) * 8 + n + i % 2] = c.r[i];
}

template <typename T>
void ExpectProducts(Stream stream, bool by_shuffles, double tolerance) {
  const std::vector<float> left = RandomFloats(256, -1, 1, 1), right = RandomFloats(128, -1, 1, 2);
  for (bool transposed : {false, true}) {
    std::vector<float> product(128);
    Launch("product", Product<T>, 1, 32, 32 * 24 * sizeof(T), stream,
           ProductParams{left.data(), right.data(), product.data(), transposed, by_shuffles});
    for (int m = 0; m < 16; ++m) {
      for (int n = 0; n < 8; ++n) {
        double expected = 0;
        for (int k = 0; k < 16; ++k) expected += double{left[16 * m + k]} * right[8 * k + n];
        EXPECT_NEAR(product[8 * m + n], expected, tolerance) << m << ", " << n;
      }
    }
  }
}

TEST_P(CudaEmulationTest, FragmentsMultiplyAsTheTensorCoresDo) {
  ExpectProducts<Half>(stream_.get(), false, 16 * 2 * 0x1p-11);  // both factors are rounded
}

TEST_P(CudaEmulationTest, FloatFragmentsMultiplyInFullPrecision) {
  ExpectProducts<float>(stream_.get(), false, 16 * 0x1p-23);
}

TEST_P(CudaEmulationTest, TheProductByShufflesIsTheSame) {
  ExpectProducts<float>(stream_.get(), true, 16 * 0x1p-23);
}

}  // namespace
}  // namespace nerf::kernels::cuda
