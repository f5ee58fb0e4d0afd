#pragma once

#include <cstdint>
#include <string>

#include "server/queue/resources/resource_key.h"

namespace nerf {

// What a lease is about: one part of a job (KindPolicy::PartsOf).
struct LeaseKey {
  ResourceKey job;
  uint32_t part = 0;

  auto operator<=>(const LeaseKey&) const = default;
};

// A reference to a lease, as a worker sends it in every write. The epoch decides whether it is
// valid; the worker is compared, too, if given.
struct LeaseRef {
  ResourceKey job;
  std::string worker;  // may be empty in a write
  uint64_t epoch = 0;
  uint32_t part = 0;

  LeaseKey key() const { return {job, part}; }
  bool operator==(const LeaseRef&) const = default;
};

}  // namespace nerf
