#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace nerf {

// Memory that a training needs, in bytes.
struct MemoryEstimate {
  uint64_t image_bytes = 0;     // decoded pictures
  uint64_t step_bytes = 0;      // parameters, moments, grid, scratch
  uint64_t snapshot_bytes = 0;  // the watchdog's copy and a checkpoint being written
  uint64_t view_bytes = 0;      // one rendered view with its ground truth

  uint64_t Total() const { return image_bytes + step_bytes + snapshot_bytes + view_bytes; }
};

// Bytes to render a view of this many pixels and compare it with a picture or write it.
uint64_t ViewBytes(uint64_t n_pixels);

// Bytes that this process may still allocate: the least of MemAvailable, what the memory limits
// (cgroups v1 and v2) of its group and the parent groups leave, and what its own limit
// (RLIMIT_DATA) leaves. `root` is "" except in tests. nullopt if none of them can be read.
std::optional<uint64_t> AvailableMemoryBytes(const std::string& root = "");

// ResourceExhausted OUT_OF_MEMORY with all the numbers if the estimate does not fit.
absl::Status CheckFits(const MemoryEstimate& estimate, std::optional<uint64_t> available_bytes);
// The same for rendering a view.
absl::Status CheckViewFits(int width, int height, std::optional<uint64_t> available_bytes);

}  // namespace nerf
