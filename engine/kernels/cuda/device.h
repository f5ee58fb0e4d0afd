#pragma once

#include <cstddef>
#include <functional>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

#include "engine/base/buffer.h"
#include "engine/kernels/stream.h"

// What the host asks of CUDA devices, without CUDA's headers. A build without CUDA answers
// IsAvailable() with false; everything behind it then aborts by NERF_CHECK.
namespace nerf::kernels::cuda {

// A call of the CUDA runtime that failed: a bug of ours, or a device that broke.
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Device memory is exhausted. The device stays usable.
class CudaOutOfMemory : public std::bad_alloc {
 public:
  const char* what() const noexcept override { return "out of device memory"; }
};

// Whether this build has kernels.
bool IsBuilt();
// Whether this build has kernels and this machine a device with a driver that runs them.
bool IsAvailable();
// Why not, in one line for people: not built, no driver, driver too old, no device, device too old.
// Empty where IsAvailable(); with an index, where that device is there and new enough. Touches no
// device: a context on one takes hundreds of MiB of it.
std::string WhyUnavailable(std::optional<int> index = std::nullopt);

struct DeviceDescription {
  std::string name;
  std::string pci_bus_id;      // "0000:1b:00.0"
  int compute_capability = 0;  // 90 is 9.0
  int n_multiprocessors = 0;
  size_t total_bytes = 0, free_bytes = 0;
};
int DeviceCount();
// Requires: index < DeviceCount(). Makes a context on that device.
DeviceDescription DescribeDevice(int index);
// What the calling thread uses from now on.
void UseDevice(int index);

// Shared memory that a block may ask for on the device in use.
size_t MaxSharedBytesPerBlock();

// Memory of the device in use: zeroed. Never null, lives for ever. Throws CudaOutOfMemory.
BufferAllocator* DeviceAllocator();
// Host memory that copies to and from the device need not stage. Throws std::bad_alloc.
BufferAllocator* PinnedAllocator();

// A stream of its own.
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

// Copies and fills take their turn in the stream. Host memory must stay as it is until they are
// done.
void CopyToDevice(void* device, const void* host, size_t byte_size, Stream stream);
void CopyToHost(void* host, const void* device, size_t byte_size, Stream stream);
void CopyOnDevice(void* to, const void* from, size_t byte_size, Stream stream);
void Fill(void* device, int byte, size_t byte_size, Stream stream);
// What is put into `waiter` from now on runs after what `other` holds now. While `other` records a
// graph `waiter` joins the recording; before it ends, `other` has to wait for `waiter` in turn.
void WaitFor(Stream waiter, Stream other);
// Returns when everything in the stream is done.
void Synchronize(Stream stream);

// A moment of the device's own clock.
class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  // When everything is done that the stream holds now.
  void Record(Stream stream);
  // Requires: both are recorded and over.
  double SecondsSince(const Event& earlier) const;

 private:
  [[maybe_unused]] void* handle_ = nullptr;  // used where there is CUDA
};

// A sequence of launches, copies and fills that was recorded once and is put into a stream as one.
// Launches keep the parameters that they were recorded with.
class Graph {
 public:
  // Records what `record` puts into `stream`; nothing of it runs.
  Graph(Stream stream, const std::function<void()>& record);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void Launch(Stream stream) const;

 private:
  [[maybe_unused]] void* handle_ = nullptr;  // used where there is CUDA
};

}  // namespace nerf::kernels::cuda
