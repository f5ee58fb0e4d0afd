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
  int version = 2;  // 1 or 2; the names of the files differ
};

// The groups of this process for a controller ("memory", "cpu"), each followed by its parents. The
// last one is the root of the mount: inside a container the other paths may be the host's and
// missing, and the root is then the container's own group. `root` is "" except in tests. Empty if
// nothing can be read.
std::vector<ControlGroup> ControlGroups(std::string_view controller, const std::string& root = "");

// The whole number at the start of a small system file, or with `key` the one after that key at the
// start of a line. nullopt if there is none, as in "max".
std::optional<uint64_t> NumberInFile(const std::string& path, std::string_view key = "");

// The cores that this process may use, at least 1: those of its affinity, limited by the CPU quota
// of its control groups, rounded up. `root` is "" except in tests.
int UsableCores(const std::string& root = "");

}  // namespace nerf
