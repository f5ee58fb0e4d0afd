#pragma once

#include <cstdint>
#include <string>

#include "server/queue/resource_key.h"

namespace nerf {

// What a lease is about: one part of a job. Every job has one part today (PartsOf in job_kind.h).
struct LeaseKey {
  ResourceKey job;
  uint32_t part = 0;

  auto operator<=>(const LeaseKey&) const = default;
};

// A lease as one of its members names it in every write. The epoch is the proof; the worker is
// compared too where it is given.
struct LeaseRef {
  ResourceKey job;
  std::string worker;  // may be empty in a write
  uint64_t epoch = 0;
  uint32_t part = 0;

  LeaseKey key() const { return {job, part}; }
  bool operator==(const LeaseRef&) const = default;
};

}  // namespace nerf
