#pragma once

#include <cstddef>
#include <functional>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

#include "engine/base/buffer.h"
#include "engine/field/kernels/stream.h"

// CUDA devices as the host uses them, without CUDA's headers. In a build without CUDA IsAvailable()
// is false and the functions that need a device abort by NERF_CHECK.
namespace nerf::kernels::cuda {

// A failed call of the CUDA runtime: a bug of ours or a broken device.
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Device memory is exhausted. The device stays usable.
class CudaOutOfMemory : public std::bad_alloc {
 public:
  const char* what() const noexcept override { return "out of device memory"; }
};

// Whether this build has CUDA kernels.
bool IsBuilt();
// Whether this build has CUDA kernels and this machine has a driver and a device that run them.
bool IsAvailable();
// The reason in one line: not built, no driver, driver too old, no device, device too old. Empty if
// IsAvailable() or, with an index, if that device can be used. Creates no context on a device,
// which would take hundreds of MiB of its memory.
std::string WhyUnavailable(std::optional<int> index = std::nullopt);

struct DeviceDescription {
  std::string name;
  std::string pci_bus_id;      // "0000:1b:00.0"
  int compute_capability = 0;  // 90 is 9.0
  int n_multiprocessors = 0;
  int clock_mhz = 0;  // the highest
  size_t total_bytes = 0, free_bytes = 0;
};
int DeviceCount();
// Requires: index < DeviceCount(). Creates a context on that device.
DeviceDescription DescribeDevice(int index);
// Makes `index` the calling thread's current device.
void UseDevice(int index);

// Shared memory available to a block on the current device, in bytes.
size_t MaxSharedBytesPerBlock();

// Zeroed memory of the current device. Never null, never destroyed. Throws CudaOutOfMemory.
BufferAllocator* DeviceAllocator();
// Page-locked host memory, which is copied to and from the device directly. Throws std::bad_alloc.
BufferAllocator* PinnedAllocator();

// Creates and owns a stream.
class OwnedStream {
 public:
  OwnedStream();
  ~OwnedStream();
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  Stream get() const { return stream_; }

 private:
  Stream stream_;
};

// Copies and fills run in stream order. Host memory must stay valid and unchanged until they are
// done.
void CopyToDevice(void* device, const void* host, size_t byte_size, Stream stream);
void CopyToHost(void* host, const void* device, size_t byte_size, Stream stream);
void CopyOnDevice(void* to, const void* from, size_t byte_size, Stream stream);
void Fill(void* device, int byte, size_t byte_size, Stream stream);
// Later work in `waiter` runs after the work that is now in `other`. While `other` records a graph,
// `waiter` joins the recording, and `other` must wait for `waiter` before the recording ends.
void WaitFor(Stream waiter, Stream other);
// Returns when everything in the stream is done.
void Synchronize(Stream stream);

// A time stamp of the device's clock.
class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  // Records the time when the work that is now in the stream is done.
  void Record(Stream stream);
  // Requires: both were recorded and have been reached.
  double SecondsSince(const Event& earlier) const;

 private:
  [[maybe_unused]] void* handle_ = nullptr;  // unused without CUDA
};

// A sequence of launches, copies and fills that is recorded once and launched as a whole. Launches
// keep their recorded parameters.
class Graph {
 public:
  // Records the work that `record` puts into `stream`, without running it.
  Graph(Stream stream, const std::function<void()>& record);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void Launch(Stream stream) const;

 private:
  [[maybe_unused]] void* handle_ = nullptr;  // unused without CUDA
};

}  // namespace nerf::kernels::cuda
