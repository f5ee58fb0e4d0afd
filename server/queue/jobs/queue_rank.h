#pragma once

#include <compare>
#include <cstdint>
#include <ext/pb_ds/assoc_container.hpp>
#include <ext/pb_ds/tree_policy.hpp>
#include <functional>

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

// Ranks in order. order_of_key counts those before one in logarithmic time.
using RankSet =
    __gnu_pbds::tree<QueueRank, __gnu_pbds::null_type, std::less<QueueRank>,
                     __gnu_pbds::rb_tree_tag, __gnu_pbds::tree_order_statistics_node_update>;

}  // namespace nerf
