#include "engine/base/buffer.h"

#include <sys/mman.h>

namespace nerf {
namespace {

constexpr size_t kAlignment = 64;  // one cache line, one AVX-512 vector
// Hash tables are read at random addresses: huge pages avoid most TLB misses.
constexpr size_t kHugePage = size_t{2} << 20;

class HostBufferAllocator : public BufferAllocator {
 public:
  void* Allocate(size_t byte_size) override {
    const size_t alignment = byte_size >= kHugePage ? kHugePage : kAlignment;
    const size_t rounded = (byte_size + alignment - 1) / alignment * alignment;
    void* bytes = std::aligned_alloc(alignment, rounded);
    if (bytes == nullptr) throw std::bad_alloc();
    if (alignment == kHugePage)
      madvise(bytes, rounded, MADV_HUGEPAGE);  // a hint: failure only costs speed
    std::memset(bytes, 0, rounded);
    return bytes;
  }
  void Free(void* bytes, size_t /*byte_size*/) override { std::free(bytes); }
  DeviceKind device() const override { return DeviceKind::kCpu; }
};

}  // namespace

BufferAllocator* HostAllocator() {
  static HostBufferAllocator* const allocator = new HostBufferAllocator;
  return allocator;
}

}  // namespace nerf
