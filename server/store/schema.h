#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "common/ids.h"

struct sqlite3;

namespace nerf {

// The schema version of this program (PRAGMA user_version of the file).
inline constexpr int kSchemaVersion = 8;

// Gives a new file the schema and its store epoch. FailedPrecondition for a file of another
// version.
absl::Status OpenSchema(sqlite3* db, RandomSource& random);

// FailedPrecondition: `place`, such as "store", has another schema version than is supported.
absl::Status WrongSchemaVersion(std::string_view place, int version, int supported);

}  // namespace nerf
