#include "engine/train/memory_estimate.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "common/error_reason.h"
#include "common/file_io.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr uint64_t kMaxProcFileBytes = 1 << 20;
constexpr std::string_view kOutOfMemoryReason = "OUT_OF_MEMORY";
// Colour, opacity and depth of a pixel in floats, and two 8-bit pictures.
constexpr uint64_t kViewBytesPerPixel = 20 + 2 * 3;

std::optional<uint64_t> LeadingNumber(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  uint64_t number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (result.ec != std::errc()) return std::nullopt;  // "max", too
  return number;
}

// The number that follows `key` at the beginning of a line.
std::optional<uint64_t> NumberAfter(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.substr(0, key.size()) == key) return LeadingNumber(line.substr(key.size()));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return std::nullopt;
}

std::optional<uint64_t> NumberIn(const std::string& path, std::string_view key = "") {
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxProcFileBytes);
  if (!text.ok()) return std::nullopt;
  return NumberAfter(*text, key);
}

void TakeLeast(std::optional<uint64_t> value, std::optional<uint64_t>* least) {
  if (value.has_value()) *least = std::min(*value, least->value_or(*value));
}

// What one group's limit leaves. Cached file pages count as used there but are given back.
std::optional<uint64_t> LeftInGroup(const std::string& folder) {
  const auto limit = NumberIn(folder + "/memory.max");
  const auto used = NumberIn(folder + "/memory.current");
  if (!limit.has_value() || !used.has_value()) return std::nullopt;
  const uint64_t cached = NumberIn(folder + "/memory.stat", "inactive_file ").value_or(0);
  const uint64_t held = *used - std::min(*used, cached);
  return *limit - std::min(*limit, held);
}

std::string Mib(uint64_t bytes) { return fmt::format("{} MiB", (bytes + (1 << 20) - 1) >> 20); }

}  // namespace

uint64_t ViewBytes(uint64_t n_pixels) { return n_pixels * kViewBytesPerPixel; }

std::optional<uint64_t> AvailableMemoryBytes(const std::string& root) {
  std::optional<uint64_t> available;
  if (const auto kib = NumberIn(root + "/proc/meminfo", "MemAvailable:")) available = *kib * 1024;

  const absl::StatusOr<std::string> groups =
      ReadFile(root + "/proc/self/cgroup", kMaxProcFileBytes);
  std::string group;
  if (groups.ok() && groups->rfind("0::/", 0) == 0)
    group = groups->substr(3, groups->find('\n') - 3);
  while (true) {
    TakeLeast(LeftInGroup(root + "/sys/fs/cgroup" + (group == "/" ? "" : group)), &available);
    const size_t slash = group.rfind('/');
    if (group.empty() || group == "/" || slash == std::string::npos) break;
    group.resize(slash);
  }
  return available;
}

absl::Status CheckFits(const MemoryEstimate& estimate, std::optional<uint64_t> available_bytes) {
  if (!available_bytes.has_value() || estimate.Total() <= *available_bytes) return absl::OkStatus();
  return WithReason(
      absl::ResourceExhaustedError(fmt::format(
          "training needs {} (images {}, training state {}, its copies {}, rendering {}) and {} "
          "are available; fewer or smaller images or a lower log2_hashmap_size need less",
          Mib(estimate.Total()), Mib(estimate.image_bytes), Mib(estimate.step_bytes),
          Mib(estimate.snapshot_bytes), Mib(estimate.view_bytes), Mib(*available_bytes))),
      kOutOfMemoryReason,
      {{"needed_bytes", fmt::format("{}", estimate.Total())},
       {"available_bytes", fmt::format("{}", *available_bytes)}});
}

}  // namespace nerf
