#include "engine/field/kernels/cuda/device.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

#include "engine/field/kernels/cuda/cuda_check.cuh"

namespace nerf::kernels::cuda {
namespace {

// The lowest compute capability that the kernels support (8.0).
constexpr int kMinCapability = 80;

cudaStream_t Handle(Stream stream) { return static_cast<cudaStream_t>(stream.handle); }

class Device : public BufferAllocator {
 public:
  void* Allocate(size_t byte_size) override {
    void* bytes = nullptr;
    NERF_CUDA_CHECK(cudaMalloc(&bytes, byte_size));
    cudaError_t result = cudaMemset(bytes, 0, byte_size);
    // The memset runs in the default stream, for which our streams do not wait.
    if (result == cudaSuccess) result = cudaStreamSynchronize(nullptr);
    if (result != cudaSuccess) cudaFree(bytes);
    NERF_CUDA_CHECK(result);
    return bytes;
  }
  // Fails only if the device is lost, which the next checked call reports.
  void Free(void* bytes, size_t /*byte_size*/) override { cudaFree(bytes); }
  DeviceKind device() const override { return DeviceKind::kCuda; }
};

class Pinned : public BufferAllocator {
 public:
  void* Allocate(size_t byte_size) override {
    void* bytes = nullptr;
    const cudaError_t result = cudaMallocHost(&bytes, byte_size);
    if (result == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw std::bad_alloc();  // the host is out of memory or of lockable memory
    }
    NERF_CUDA_CHECK(result);
    std::memset(bytes, 0, byte_size);
    return bytes;
  }
  void Free(void* bytes, size_t /*byte_size*/) override { cudaFreeHost(bytes); }
  DeviceKind device() const override { return DeviceKind::kCpu; }
};

int Attribute(cudaDeviceAttr attribute, int index) {
  int value = 0;
  NERF_CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute, index));
  return value;
}

int Capability(int index) {
  return 10 * Attribute(cudaDevAttrComputeCapabilityMajor, index) +
         Attribute(cudaDevAttrComputeCapabilityMinor, index);
}

// Switches the calling thread's device for a scope. Only if it differs, because setting a device
// creates a context on it.
class DeviceScope {
 public:
  explicit DeviceScope(int index) : index_(index) {
    NERF_CUDA_CHECK(cudaGetDevice(&before_));
    if (before_ != index_) NERF_CUDA_CHECK(cudaSetDevice(index_));
  }
  ~DeviceScope() {
    if (before_ != index_) cudaSetDevice(before_);
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  const int index_;
  int before_ = 0;
};

std::string Version(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

bool IsBuilt() { return true; }
bool IsAvailable() { return WhyUnavailable().empty(); }

std::string WhyUnavailable(std::optional<int> index) {
  int driver = 0;
  cudaDriverGetVersion(&driver);  // 0 where no driver is installed
  if (driver == 0) return "no NVIDIA driver is installed (libcuda.so.1 is not found)";
  int n_devices = 0;
  const cudaError_t result = cudaGetDeviceCount(&n_devices);
  cudaGetLastError();
  if (result == cudaErrorInsufficientDriver) {
    return "the driver supports CUDA " + Version(driver) + ", this build needs " +
           Version(CUDART_VERSION) + ": install a newer driver";
  }
  if (result != cudaSuccess) return cudaGetErrorString(result);
  if (n_devices == 0) return "the driver sees no device";
  if (index.has_value() && *index >= n_devices)
    return "this machine has " + std::to_string(n_devices) + ", counted from 0";
  const int first = index.value_or(0), end = index.has_value() ? first + 1 : n_devices;
  int newest = 0;
  for (int i = first; i < end; ++i) newest = std::max(newest, Capability(i));
  if (newest >= kMinCapability) return "";
  return "too old: compute capability " + std::to_string(newest / 10) + "." +
         std::to_string(newest % 10) + ", and 8.0 is the least";
}

int DeviceCount() {
  int n_devices = 0;
  NERF_CUDA_CHECK(cudaGetDeviceCount(&n_devices));
  return n_devices;
}

DeviceDescription DescribeDevice(int index) {
  cudaDeviceProp properties;
  NERF_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
  DeviceDescription description;
  description.name = properties.name;
  description.compute_capability = 10 * properties.major + properties.minor;
  description.n_multiprocessors = properties.multiProcessorCount;
  description.clock_mhz = Attribute(cudaDevAttrClockRate, index) / 1000;
  char pci_bus_id[32] = "";
  NERF_CUDA_CHECK(cudaDeviceGetPCIBusId(pci_bus_id, sizeof(pci_bus_id), index));
  description.pci_bus_id = pci_bus_id;
  const DeviceScope scope(index);
  NERF_CUDA_CHECK(cudaMemGetInfo(&description.free_bytes, &description.total_bytes));
  return description;
}

void UseDevice(int index) { NERF_CUDA_CHECK(cudaSetDevice(index)); }

size_t MaxSharedBytesPerBlock() {
  int device = 0;
  NERF_CUDA_CHECK(cudaGetDevice(&device));
  return Attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
}

BufferAllocator* DeviceAllocator() {
  static Device* const allocator = new Device;
  return allocator;
}

BufferAllocator* PinnedAllocator() {
  static Pinned* const allocator = new Pinned;
  return allocator;
}

OwnedStream::OwnedStream() {
  cudaStream_t handle = nullptr;
  NERF_CUDA_CHECK(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking));
  stream_.handle = handle;
}
OwnedStream::~OwnedStream() { cudaStreamDestroy(Handle(stream_)); }

void CopyToDevice(void* device, const void* host, size_t byte_size, Stream stream) {
  NERF_CUDA_CHECK(cudaMemcpyAsync(device, host, byte_size, cudaMemcpyHostToDevice, Handle(stream)));
}

void CopyToHost(void* host, const void* device, size_t byte_size, Stream stream) {
  NERF_CUDA_CHECK(cudaMemcpyAsync(host, device, byte_size, cudaMemcpyDeviceToHost, Handle(stream)));
}

void CopyOnDevice(void* to, const void* from, size_t byte_size, Stream stream) {
  NERF_CUDA_CHECK(cudaMemcpyAsync(to, from, byte_size, cudaMemcpyDeviceToDevice, Handle(stream)));
}

void Fill(void* device, int byte, size_t byte_size, Stream stream) {
  NERF_CUDA_CHECK(cudaMemsetAsync(device, byte, byte_size, Handle(stream)));
}

void WaitFor(Stream waiter, Stream other) {
  cudaEvent_t reached = nullptr;
  NERF_CUDA_CHECK(cudaEventCreateWithFlags(&reached, cudaEventDisableTiming));
  cudaError_t result = cudaEventRecord(reached, Handle(other));
  if (result == cudaSuccess) result = cudaStreamWaitEvent(Handle(waiter), reached, 0);
  cudaEventDestroy(reached);  // released after the wait
  NERF_CUDA_CHECK(result);
}

void Synchronize(Stream stream) { NERF_CUDA_CHECK(cudaStreamSynchronize(Handle(stream))); }

Event::Event() {
  cudaEvent_t handle = nullptr;
  NERF_CUDA_CHECK(cudaEventCreate(&handle));
  handle_ = handle;
}
Event::~Event() { cudaEventDestroy(static_cast<cudaEvent_t>(handle_)); }
void Event::Record(Stream stream) {
  NERF_CUDA_CHECK(cudaEventRecord(static_cast<cudaEvent_t>(handle_), Handle(stream)));
}
double Event::SecondsSince(const Event& earlier) const {
  float milliseconds = 0;
  NERF_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, static_cast<cudaEvent_t>(earlier.handle_),
                                       static_cast<cudaEvent_t>(handle_)));
  return 1e-3 * milliseconds;
}

Graph::Graph(Stream stream, const std::function<void()>& record) {
  // Relaxed: the first launch of a kernel loads it, which allocates memory.
  NERF_CUDA_CHECK(cudaStreamBeginCapture(Handle(stream), cudaStreamCaptureModeRelaxed));
  cudaGraph_t graph = nullptr;
  try {
    record();
  } catch (...) {
    cudaStreamEndCapture(Handle(stream), &graph);
    cudaGraphDestroy(graph);
    throw;
  }
  NERF_CUDA_CHECK(cudaStreamEndCapture(Handle(stream), &graph));
  cudaGraphExec_t executable = nullptr;
  const cudaError_t result = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  NERF_CUDA_CHECK(result);
  handle_ = executable;
}
Graph::~Graph() { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(handle_)); }

void Graph::Launch(Stream stream) const {
  NERF_CUDA_CHECK(cudaGraphLaunch(static_cast<cudaGraphExec_t>(handle_), Handle(stream)));
}

}  // namespace nerf::kernels::cuda
