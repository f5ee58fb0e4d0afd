#pragma once

#include "absl/status/status.h"
#include "common/ids.h"

struct sqlite3;

namespace nerf {

// The schema version of this program (PRAGMA user_version of the file).
inline constexpr int kSchemaVersion = 4;

// Migrates a store to kSchemaVersion, one version at a time, in one transaction. Gives a new file
// its store epoch. FailedPrecondition for a file of a newer program.
absl::Status MigrateSchema(sqlite3* db, RandomSource& random);

}  // namespace nerf
