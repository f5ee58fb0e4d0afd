#include "engine/scene/posing/match_groups.h"

#include <algorithm>
#include <map>

namespace nerf {
namespace {

// The first of a photograph's group; shortens the way to it.
const std::string& FirstOf(const std::string& name, std::map<std::string, std::string>* before) {
  std::string& next = before->emplace(name, name).first->second;
  if (next != name) next = FirstOf(next, before);
  return next;
}

}  // namespace

size_t LargestGroup(const std::vector<ColmapPair>& pairs, const std::set<std::string>& names) {
  std::map<std::string, std::string> before;
  for (const ColmapPair& pair : pairs) {
    const std::string first = FirstOf(pair.first, &before);
    before[FirstOf(pair.second, &before)] = first;
  }
  std::map<std::string, size_t> sizes;
  size_t largest = 0;
  for (const std::string& name : names)
    largest = std::max(largest, ++sizes[FirstOf(name, &before)]);
  return largest;
}

}  // namespace nerf
