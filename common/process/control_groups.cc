#include "common/process/control_groups.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <thread>

#include "common/files/file_io.h"

namespace nerf {
namespace {

constexpr uint64_t kMaxSystemFileBytes = 1 << 20;

std::string_view TakeLine(std::string_view* text) {
  const std::string_view line = text->substr(0, text->find('\n'));
  text->remove_prefix(std::min(text->size(), line.size() + 1));
  return line;
}

void SkipBlanks(std::string_view* text) {
  while (!text->empty() && (text->front() == ' ' || text->front() == '\t')) text->remove_prefix(1);
}

std::optional<uint64_t> TakeNumber(std::string_view* text) {
  SkipBlanks(text);
  uint64_t number = 0;
  const auto result = std::from_chars(text->data(), text->data() + text->size(), number);
  if (result.ec != std::errc()) return std::nullopt;
  text->remove_prefix(result.ptr - text->data());
  return number;
}

// Adds the groups that a line "ID:CONTROLLERS:PATH" of /proc/self/cgroup names: of version 1 if
// CONTROLLERS has the controller, of version 2 if the line is "0::PATH".
void AddGroupsOfLine(std::string_view line, std::string_view controller, const std::string& root,
                     std::vector<ControlGroup>* groups) {
  const size_t first = line.find(':');
  const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
  if (second == line.npos) return;
  std::string path(line.substr(second + 1));
  if (path.empty() || path.front() != '/') return;
  const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
  std::string mount = root + "/sys/fs/cgroup";
  int version = 2;
  if (line.substr(0, second + 1) != "0::") {
    if (controllers.find(fmt::format(",{},", controller)) == std::string::npos) return;
    mount += fmt::format("/{}", controller);
    version = 1;
  }
  while (path != "/" && !path.empty()) {
    groups->push_back({mount + path, version});
    path.resize(path.rfind('/'));
  }
  groups->push_back({mount, version});
}

// A group's CPU quota in cores. nullopt if it has none.
std::optional<uint64_t> QuotaCores(const ControlGroup& group) {
  std::optional<uint64_t> quota, period;
  if (group.version == 1) {
    quota = NumberInFile(group.folder + "/cpu.cfs_quota_us");  // -1: none
    period = NumberInFile(group.folder + "/cpu.cfs_period_us");
  } else if (const auto text = ReadFile(group.folder + "/cpu.max", kMaxSystemFileBytes);
             text.ok()) {  // "QUOTA PERIOD", "max PERIOD": none
    std::string_view rest = *text;
    quota = TakeNumber(&rest);
    period = TakeNumber(&rest);
  }
  if (!quota.has_value() || !period.has_value() || *period == 0) return std::nullopt;
  return *quota / *period + (*quota % *period != 0);
}

}  // namespace

std::vector<ControlGroup> ControlGroups(std::string_view controller, const std::string& root) {
  std::vector<ControlGroup> groups;
  const auto text = ReadFile(root + "/proc/self/cgroup", kMaxSystemFileBytes);
  if (!text.ok()) return groups;
  std::string_view rest = *text;
  while (!rest.empty()) AddGroupsOfLine(TakeLine(&rest), controller, root, &groups);
  return groups;
}

std::optional<uint64_t> NumberInFile(const std::string& path, std::string_view key) {
  const auto text = ReadFile(path, kMaxSystemFileBytes);
  if (!text.ok()) return std::nullopt;
  std::string_view rest = *text;
  while (!rest.empty()) {
    std::string_view line = TakeLine(&rest);
    if (!line.starts_with(key)) continue;
    line.remove_prefix(key.size());
    return TakeNumber(&line);
  }
  return std::nullopt;
}

int UsableCores(const std::string& root) {
  uint64_t cores = std::max(1u, std::thread::hardware_concurrency());
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cores = CPU_COUNT(&set);
  for (const ControlGroup& group : ControlGroups("cpu", root))
    cores = std::min(cores, QuotaCores(group).value_or(cores));
  return static_cast<int>(std::max(cores, uint64_t{1}));
}

}  // namespace nerf
