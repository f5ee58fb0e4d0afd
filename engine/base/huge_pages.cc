#include "engine/base/huge_pages.h"

#include <sys/mman.h>

namespace nerf {
namespace {

constexpr uintptr_t kPageBytes = uintptr_t{2} << 20;
constexpr int kCollapse = 25;  // MADV_COLLAPSE, which glibc 2.36 does not name

}  // namespace

void CollapseToHugePages(std::span<const uint8_t> bytes) {
  if (bytes.empty()) return;
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t begin = address / kPageBytes * kPageBytes;
  const uintptr_t end = (address + bytes.size() + kPageBytes - 1) / kPageBytes * kPageBytes;
  madvise(reinterpret_cast<void*>(begin), end - begin, kCollapse);
}

}  // namespace nerf
