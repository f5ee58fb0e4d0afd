#include "tests/testing/cuda_emulation/emulated_device.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "engine/base/check.h"
#include "engine/field/kernels/cuda/device.h"

namespace nerf {
namespace cuda_emulation {
namespace {

constexpr size_t kDefaultDeviceBytes = size_t{1} << 30;

constexpr int kDevices = 2;  // which share their memory

std::atomic<size_t> device_bytes = kDefaultDeviceBytes;
std::atomic<size_t> bytes_in_use = 0;
std::atomic<int> graphs_recorded = 0;

using Work = std::vector<std::function<void()>>;

struct EmulatedStream {
  Work* recording = nullptr;
  std::vector<EmulatedStream*> joined;  // joined this one's recording; not yet waited for
};

EmulatedStream* Of(kernels::Stream stream) {
  NERF_CHECK(stream.handle != nullptr);
  return static_cast<EmulatedStream*>(stream.handle);
}

// Plain malloc, so that ASan knows the size of each array.
class Memory : public BufferAllocator {
 public:
  explicit Memory(DeviceKind device) : device_(device) {}
  void* Allocate(size_t byte_size) override {
    if (device_ == DeviceKind::kCuda) {
      if (byte_size > device_bytes - bytes_in_use) throw kernels::cuda::CudaOutOfMemory();
      bytes_in_use += byte_size;
    }
    void* bytes = std::calloc(byte_size, 1);
    NERF_CHECK(bytes != nullptr);
    return bytes;
  }
  void Free(void* bytes, size_t byte_size) override {
    if (device_ == DeviceKind::kCuda) bytes_in_use -= byte_size;
    std::free(bytes);
  }
  DeviceKind device() const override { return device_; }

 private:
  const DeviceKind device_;
};

}  // namespace

void Submit(kernels::Stream stream, std::function<void()> work) {
  if (Work* recording = Of(stream)->recording; recording != nullptr) {
    recording->push_back(std::move(work));
  } else {
    work();
  }
}

size_t DeviceBytesInUse() { return bytes_in_use; }
void SetDeviceBytes(size_t byte_size) { device_bytes = byte_size; }
int GraphsRecorded() { return graphs_recorded; }

}  // namespace cuda_emulation

namespace kernels::cuda {

bool IsBuilt() { return true; }
bool IsAvailable() { return true; }
std::string WhyUnavailable(std::optional<int> index) {
  return index.value_or(0) < DeviceCount() ? "" : "this machine has no device of that number";
}
int DeviceCount() { return cuda_emulation::kDevices; }
DeviceDescription DescribeDevice(int index) {
  NERF_CHECK(index >= 0 && index < DeviceCount());
  return {"host emulation",
          "0000:0" + std::to_string(index) + ":00.0",
          90,
          1,
          1000,
          cuda_emulation::device_bytes,
          cuda_emulation::device_bytes - cuda_emulation::bytes_in_use};
}
void UseDevice(int index) { NERF_CHECK(index >= 0 && index < DeviceCount()); }
size_t MaxSharedBytesPerBlock() { return size_t{227} << 10; }  // as devices of the H100's kind

BufferAllocator* DeviceAllocator() {
  static auto* const allocator = new cuda_emulation::Memory(DeviceKind::kCuda);
  return allocator;
}
BufferAllocator* PinnedAllocator() {
  static auto* const allocator = new cuda_emulation::Memory(DeviceKind::kCpu);
  return allocator;
}

OwnedStream::OwnedStream() { stream_.handle = new cuda_emulation::EmulatedStream; }
OwnedStream::~OwnedStream() { delete cuda_emulation::Of(stream_); }

void CopyToDevice(void* device, const void* host, size_t byte_size, Stream stream) {
  cuda_emulation::Submit(stream, [=] { std::memcpy(device, host, byte_size); });
}
void CopyToHost(void* host, const void* device, size_t byte_size, Stream stream) {
  cuda_emulation::Submit(stream, [=] { std::memcpy(host, device, byte_size); });
}
void CopyOnDevice(void* to, const void* from, size_t byte_size, Stream stream) {
  cuda_emulation::Submit(stream, [=] { std::memcpy(to, from, byte_size); });
}
void Fill(void* device, int byte, size_t byte_size, Stream stream) {
  cuda_emulation::Submit(stream, [=] { std::memset(device, byte, byte_size); });
}
void WaitFor(Stream waiter, Stream other) {
  cuda_emulation::EmulatedStream* const from = cuda_emulation::Of(other);
  cuda_emulation::EmulatedStream* const to = cuda_emulation::Of(waiter);
  if (std::erase(to->joined, from) > 0) {
    from->recording = nullptr;
  } else if (from->recording != nullptr) {
    NERF_CHECK(to->recording == nullptr);
    to->recording = from->recording;
    from->joined.push_back(to);
  }
}
void Synchronize(Stream stream) {
  NERF_CHECK(cuda_emulation::Of(stream)->recording == nullptr);  // not allowed in a capture
}

// The emulated clock stands still: times mean nothing here.
Event::Event() = default;
Event::~Event() = default;
void Event::Record(Stream stream) {
  NERF_CHECK(cuda_emulation::Of(stream)->recording == nullptr);  // such an event has no time
}
double Event::SecondsSince(const Event&) const { return 0; }

Graph::Graph(Stream stream, const std::function<void()>& record) {
  auto* work = new cuda_emulation::Work;
  handle_ = work;
  cuda_emulation::Of(stream)->recording = work;
  record();
  NERF_CHECK(cuda_emulation::Of(stream)->joined.empty());  // a device refuses such a graph
  cuda_emulation::Of(stream)->recording = nullptr;
  ++cuda_emulation::graphs_recorded;
}
Graph::~Graph() { delete static_cast<cuda_emulation::Work*>(handle_); }
void Graph::Launch(Stream stream) const {
  for (const auto& work : *static_cast<cuda_emulation::Work*>(handle_))
    cuda_emulation::Submit(stream, work);
}

}  // namespace kernels::cuda
}  // namespace nerf
