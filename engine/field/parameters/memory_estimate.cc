#include "engine/field/parameters/memory_estimate.h"

#include <algorithm>

#include "common/error_reason.h"
#include "common/process/control_groups.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// Four channels of 8 bits and a depth, of each of four rays on a CUDA device. A CPU has color,
// opacity and depth in floats, and the four channels.
constexpr uint64_t kViewBytesPerPixel = 4 * (4 + 4);

// Bytes that one group's limit leaves. Cached file pages count as used but can be reclaimed.
std::optional<uint64_t> RoomInGroup(const ControlGroup& group) {
  const bool is_old = group.version == 1;
  const auto limit =
      NumberInFile(group.folder + (is_old ? "/memory.limit_in_bytes" : "/memory.max"));
  const auto used =
      NumberInFile(group.folder + (is_old ? "/memory.usage_in_bytes" : "/memory.current"));
  if (!limit.has_value() || !used.has_value()) return std::nullopt;
  const uint64_t cached = NumberInFile(group.folder + "/memory.stat",
                                       is_old ? "total_inactive_file " : "inactive_file ")
                              .value_or(0);
  const uint64_t held = *used - std::min(*used, cached);
  return *limit - std::min(*limit, held);
}

std::string Mib(uint64_t bytes) { return fmt::format("{} MiB", (bytes + (1 << 20) - 1) >> 20); }

absl::Status OutOfMemory(const std::string& message, uint64_t needed, uint64_t available) {
  return WithReason(absl::ResourceExhaustedError(message), reason::kOutOfMemory,
                    {{"needed_bytes", fmt::format("{}", needed)},
                     {"available_bytes", fmt::format("{}", available)}});
}

}  // namespace

uint64_t ViewBytes(uint64_t n_pixels) { return n_pixels * kViewBytesPerPixel; }

std::optional<uint64_t> AvailableMemoryBytes(const std::string& root) {
  std::optional<uint64_t> available;
  if (const auto kib = NumberInFile(root + "/proc/meminfo", "MemAvailable:"))
    available = *kib * 1024;
  for (const ControlGroup& group : ControlGroups("memory", root)) {
    if (const auto left = RoomInGroup(group))
      available = std::min(*left, available.value_or(*left));
  }
  // Of this process alone (RLIMIT_DATA), as workers set it.
  if (const auto limit = NumberInFile(root + "/proc/self/limits", "Max data size")) {
    const uint64_t used = NumberInFile(root + "/proc/self/status", "VmData:").value_or(0) * 1024;
    const uint64_t left = *limit - std::min(*limit, used);
    available = std::min(left, available.value_or(left));
  }
  return available;
}

absl::Status CheckFits(const MemoryEstimate& estimate, std::optional<uint64_t> available_bytes) {
  if (!available_bytes.has_value() || estimate.Total() <= *available_bytes) return absl::OkStatus();
  return OutOfMemory(
      fmt::format("training needs {} (images {}, training state {}, its copies {}, rendering {}) "
                  "and {} are available; fewer or smaller images or a lower log2_hashmap_size need "
                  "less",
                  Mib(estimate.Total()), Mib(estimate.image_bytes), Mib(estimate.step_bytes),
                  Mib(estimate.snapshot_bytes), Mib(estimate.view_bytes), Mib(*available_bytes)),
      estimate.Total(), *available_bytes);
}

absl::Status CheckViewFits(int width, int height, std::optional<uint64_t> available_bytes) {
  const uint64_t needed = ViewBytes(static_cast<uint64_t>(width) * static_cast<uint64_t>(height));
  if (!available_bytes.has_value() || needed <= *available_bytes) return absl::OkStatus();
  return OutOfMemory(fmt::format("a view of {} x {} pixels needs {} and {} are available", width,
                                 height, Mib(needed), Mib(*available_bytes)),
                     needed, *available_bytes);
}

}  // namespace nerf
