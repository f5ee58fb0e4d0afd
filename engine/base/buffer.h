#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include "engine/base/check.h"

namespace nerf {

enum class DeviceKind { kCpu, kCuda };

// The source of a Buffer's memory. The allocator for CUDA devices is in kernels/cuda.
class BufferAllocator {
 public:
  virtual ~BufferAllocator() = default;
  // Returns `byte_size` zeroed bytes aligned to 64. Throws std::bad_alloc.
  virtual void* Allocate(size_t byte_size) = 0;
  virtual void Free(void* bytes, size_t byte_size) = 0;
  virtual DeviceKind device() const = 0;
};

// Host memory; large blocks request huge pages. Never null, never destroyed, thread-safe.
BufferAllocator* HostAllocator();

// Sums up the bytes that would be allocated without allocating any. A buffer made with it may only
// be destroyed.
class MeasuringAllocator : public BufferAllocator {
 public:
  void* Allocate(size_t byte_size) override {
    byte_size_ += byte_size;
    return nullptr;
  }
  void Free(void*, size_t) override {}
  DeviceKind device() const override { return DeviceKind::kCuda; }
  size_t byte_size() const { return byte_size_; }

 private:
  size_t byte_size_ = 0;
};

// A fixed number of elements in host or device memory, 64-byte aligned, zeroed, allocated once.
// Movable, not copyable. Element access is for host buffers only.
template <typename T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() = default;
  explicit Buffer(size_t size, BufferAllocator* allocator = HostAllocator())
      : size_(size), allocator_(allocator) {
    if (size_ > 0) elements_ = static_cast<T*>(allocator_->Allocate(byte_size()));
  }
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(elements_, other.elements_);
    std::swap(size_, other.size_);
    std::swap(allocator_, other.allocator_);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (elements_ != nullptr) allocator_->Free(elements_, byte_size());
  }

  T* data() { return elements_; }
  const T* data() const { return elements_; }
  size_t size() const { return size_; }
  size_t byte_size() const { return size_ * sizeof(T); }
  bool empty() const { return size_ == 0; }
  DeviceKind device() const { return allocator_ ? allocator_->device() : DeviceKind::kCpu; }

  T& operator[](size_t i) {
    NERF_DCHECK(i < size_);
    return elements_[i];
  }
  const T& operator[](size_t i) const {
    NERF_DCHECK(i < size_);
    return elements_[i];
  }
  T* begin() { return elements_; }
  T* end() { return elements_ + size_; }
  const T* begin() const { return elements_; }
  const T* end() const { return elements_ + size_; }
  std::span<T> span() { return {elements_, size_}; }
  std::span<const T> span() const { return {elements_, size_}; }
  void SetZero() {
    if (size_ > 0) std::memset(static_cast<void*>(elements_), 0, byte_size());
  }

 private:
  T* elements_ = nullptr;
  size_t size_ = 0;
  BufferAllocator* allocator_ = nullptr;
};

}  // namespace nerf
