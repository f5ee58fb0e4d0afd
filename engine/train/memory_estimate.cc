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
// Colour, opacity and depth of a pixel in floats, and its four channels of 8 bits.
constexpr uint64_t kViewBytesPerPixel = 20 + 4;

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

// Where a version of cgroups keeps its numbers.
struct GroupFiles {
  const char* mount;
  const char* limit;
  const char* used;
  const char* cached;  // key in memory.stat of file pages that are given back on demand
};
constexpr GroupFiles kVersion1 = {"/sys/fs/cgroup/memory", "/memory.limit_in_bytes",
                                  "/memory.usage_in_bytes", "total_inactive_file "};
constexpr GroupFiles kVersion2 = {"/sys/fs/cgroup", "/memory.max", "/memory.current",
                                  "inactive_file "};

// What one group's limit leaves. Cached file pages count as used there but are given back.
std::optional<uint64_t> LeftInGroup(const std::string& folder, const GroupFiles& files) {
  const auto limit = NumberIn(folder + files.limit);
  const auto used = NumberIn(folder + files.used);
  if (!limit.has_value() || !used.has_value()) return std::nullopt;
  const uint64_t cached = NumberIn(folder + "/memory.stat", files.cached).value_or(0);
  const uint64_t held = *used - std::min(*used, cached);
  return *limit - std::min(*limit, held);
}

// The group and all above it. Inside a container the path may be the host's and not be there; what
// is mounted at the top is then the container's own.
void TakeLeastOfGroups(const std::string& root, std::string group, const GroupFiles& files,
                       std::optional<uint64_t>* least) {
  while (true) {
    TakeLeast(LeftInGroup(root + files.mount + (group == "/" ? "" : group), files), least);
    const size_t slash = group.rfind('/');
    if (group.empty() || group == "/" || slash == std::string::npos) return;
    group.resize(slash);
  }
}

// The path of a line "ID:CONTROLLERS:PATH" of /proc/self/cgroup: of version 1's memory controller,
// or of version 2 ("0::PATH").
void TakeLeastOfLine(const std::string& root, std::string_view line,
                     std::optional<uint64_t>* least) {
  const size_t first = line.find(':');
  const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
  if (second == line.npos) return;
  const std::string path(line.substr(second + 1));
  if (path.empty() || path.front() != '/') return;
  const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
  if (line.substr(0, second + 1) == "0::") {
    TakeLeastOfGroups(root, path, kVersion2, least);
  } else if (controllers.find(",memory,") != std::string::npos) {
    TakeLeastOfGroups(root, path, kVersion1, least);
  }
}

std::string Mib(uint64_t bytes) { return fmt::format("{} MiB", (bytes + (1 << 20) - 1) >> 20); }

absl::Status DoesNotFit(const std::string& message, uint64_t needed, uint64_t available) {
  return WithReason(absl::ResourceExhaustedError(message), reason::kOutOfMemory,
                    {{"needed_bytes", fmt::format("{}", needed)},
                     {"available_bytes", fmt::format("{}", available)}});
}

}  // namespace

uint64_t ViewBytes(uint64_t n_pixels) { return n_pixels * kViewBytesPerPixel; }

std::optional<uint64_t> AvailableMemoryBytes(const std::string& root) {
  std::optional<uint64_t> available;
  if (const auto kib = NumberIn(root + "/proc/meminfo", "MemAvailable:")) available = *kib * 1024;

  const absl::StatusOr<std::string> groups =
      ReadFile(root + "/proc/self/cgroup", kMaxProcFileBytes);
  if (!groups.ok()) return available;
  std::string_view lines = *groups;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    TakeLeastOfLine(root, line, &available);
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
  }
  return available;
}

absl::Status CheckFits(const MemoryEstimate& estimate, std::optional<uint64_t> available_bytes) {
  if (!available_bytes.has_value() || estimate.Total() <= *available_bytes) return absl::OkStatus();
  return DoesNotFit(
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
  return DoesNotFit(fmt::format("a view of {} x {} pixels needs {} and {} are available", width,
                                height, Mib(needed), Mib(*available_bytes)),
                    needed, *available_bytes);
}

}  // namespace nerf
