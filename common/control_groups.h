#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nerf {

// A folder in which Linux keeps the limits of a group of processes (cgroups).
struct ControlGroup {
  std::string folder;
  int version = 2;  // 1 or 2: the files have other names
};

// The groups of this process for a controller ("memory", "cpu"), each followed by those above it.
// Inside a container the path may be the host's and not be there; what is mounted at the top, which
// is named in any case, is then the container's own. `root` is "" but in tests. Empty where nothing
// can be read.
std::vector<ControlGroup> ControlGroups(std::string_view controller, const std::string& root = "");

// The whole number at the beginning of a small file of the system's; with a key, the one that
// follows it at the beginning of a line. nullopt where there is none, as in "max".
std::optional<uint64_t> NumberInFile(const std::string& path, std::string_view key = "");

// The cores that this process may use, at least 1: those of its affinity, and no more than the
// quota of its control groups pays for, rounded up. `root` is "" but in tests.
int UsableCores(const std::string& root = "");

}  // namespace nerf
