#pragma once

#include <compare>
#include <cstdint>

namespace nerf {

// Place of a queued job in the queue of its project: the highest priority first, of equals the
// oldest.
struct QueueRank {
  int priority = 0;
  uint64_t create_sequence = 0;

  bool operator==(const QueueRank&) const = default;
  std::strong_ordering operator<=>(const QueueRank& other) const {
    if (priority != other.priority) return other.priority <=> priority;
    return create_sequence <=> other.create_sequence;
  }
};

}  // namespace nerf
