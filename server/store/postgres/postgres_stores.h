#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/ids.h"
#include "server/access/access_store.h"
#include "server/queue/state/job_store.h"

namespace nerf {

// The stores of one nerfd in one PostgreSQL database, in its schema `nerfd`. A program that is
// built without libpq has these functions, too; they return Unimplemented FEATURE_NOT_BUILT.

// What a replica needs to lead: how long it leads without renewing (LeaderTable), and where others
// find it. Without a lease: the only nerfd of its database.
struct ReplicaSeat {
  absl::Duration lease = absl::ZeroDuration();
  std::string grpc_address = {}, web_address = {};  // host:port; empty: not served

  bool is_one() const { return lease > absl::ZeroDuration(); }
};

struct PostgresOptions {
  std::string uri;
  ReplicaSeat seat = {};
  // File that counts acknowledged commits, so that a database that lacks some is noticed.
  std::string commits_file = {};
  // Start although some are missing.
  bool accept_data_loss = false;
};

struct PostgresStores {
  std::unique_ptr<JobStore> jobs;
  std::unique_ptr<AccessStore> access;
  uint64_t term = 0;
  SteadyTime lease_began;           // of a replica, at the latest
  std::function<bool()> is_broken;  // whether nothing is stored any more; as long as both stores
};

// Whether `uri` is postgresql://... without a password, which everybody on the machine could read
// in the list of processes. InvalidArgument, without the text of the URI.
absl::Status CheckPostgresUri(const std::string& uri);

// Opens the stores and keeps every other nerfd away until both are gone. A replica waits for no
// other one: FailedPrecondition while one leads. Makes what is missing in
// the database. A password comes from PGPASSFILE, ~/.pgpass or
// PGPASSWORD. Errors: those of PgSession::Open.
absl::StatusOr<PostgresStores> OpenPostgresStores(const PostgresOptions& options,
                                                  RandomSource& random);

// Moves the queue.db and access.db of a data folder into an empty database, in one transaction;
// each row is read back and compared before it commits. Then the files get the ending `.moved`.
// When it was killed after the commit, calling it again ends the move. Returns the count of rows.
// Errors, and both sides as before: FailedPrecondition (the database holds something else, no
// queue.db); DataLoss STORE_CORRUPT (a damaged file, a row that came back different); those of the
// stores and the file system. Requires: no nerfd uses the folder.
absl::StatusOr<uint64_t> MoveToPostgres(const std::string& data_dir, const std::string& uri,
                                        RandomSource& random);

}  // namespace nerf
