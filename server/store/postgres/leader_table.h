#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace nerf {

// Who leads the replicas of a database.
struct LeaderRow {
  uint64_t term = 0;
  std::string grpc_address = {}, web_address = {};  // host:port
  bool is_free = false;                             // nobody leads, or the lease is over
};

// The table in which the replicas of one database agree on who leads, by PostgreSQL's clock.
// OpenPostgresStores begins a term. Not thread-safe.
class LeaderTable {
 public:
  virtual ~LeaderTable() = default;

  // A connection of its own. Errors: Unavailable; Unimplemented without libpq.
  static absl::StatusOr<std::unique_ptr<LeaderTable>> Open(const std::string& uri);

  // After an Unavailable of these, open another one.

  virtual absl::StatusOr<LeaderRow> Read() = 0;
  // Leads for so much longer from now on. False: another term has begun, or this one was ended.
  virtual absl::StatusOr<bool> Renew(uint64_t term, absl::Duration lease) = 0;
  // Ends the lease of this term, so that another replica may begin one at once.
  virtual absl::Status Resign(uint64_t term) = 0;
};

}  // namespace nerf
