#include "engine/base/huge_pages.h"

#include <sys/mman.h>

#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace nerf {
namespace {

// Of this process's memory, in KiB.
long KibInHugePages() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("AnonHugePages:")) return std::stol(line.substr(14));
  return -1;
}

TEST(HugePagesTest, MemoryKeepsItsContentsAndMovesWhereTheKernelCan) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{5000}, (size_t{8} << 20) + 12345}) {
    std::vector<uint8_t> bytes(size);
    std::iota(bytes.begin(), bytes.end(), uint8_t{7});
    const std::vector<uint8_t> before = bytes;
    const long held = KibInHugePages();
    CollapseToHugePages(bytes);
    EXPECT_EQ(bytes, before) << size;
    if (size < (size_t{8} << 20)) continue;
    // Each whole page of 2 MiB in it.
    auto* const first = reinterpret_cast<uint8_t*>(
        (reinterpret_cast<uintptr_t>(bytes.data()) + (2 << 20) - 1) >> 21 << 21);
    if (held < 0 || madvise(first, 2 << 20, /*MADV_COLLAPSE=*/25) != 0)
      GTEST_SKIP() << "this kernel cannot";
    EXPECT_GE(KibInHugePages(), held + 3 * 2048);
  }
}

}  // namespace
}  // namespace nerf
