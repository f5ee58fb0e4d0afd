#pragma once

#include <cstdint>
#include <span>

namespace nerf {

// Moves memory that is read at random to huge pages now, which avoids most TLB misses; beside it at
// most up to the next borders of huge pages. Its contents stay. A hint: where the kernel refuses
// (before Linux 6.1, or without free huge pages), only speed is lost.
void CollapseToHugePages(std::span<const uint8_t> bytes);

}  // namespace nerf
