#pragma once

#include "absl/status/status.h"
#include "common/ids.h"
#include "server/store/postgres/pg_connection.h"

namespace nerf {

// The schema version of this program (nerfd.schema_version of the database).
inline constexpr int kPgSchemaVersion = 7;

// Makes the database's schema `nerfd` where it is missing, in one transaction. Draws the store
// epoch and the token secret where they are missing. FailedPrecondition, and nothing changed, for a
// schema of another version. Requires: the session holds the lock of the store.
absl::Status OpenPgSchema(PgConnection& connection, RandomSource& random);

// Draws the store epoch and the token secret where they are missing, or all anew: watch tokens from
// before fit no more.
absl::Status DrawPgSecrets(PgConnection& connection, RandomSource& random, bool anew);

}  // namespace nerf
