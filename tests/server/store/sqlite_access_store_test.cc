// access.db in a temporary folder.
#include "server/store/sqlite_access_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <string>

#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using absl::StatusCode;

// Runs statements on the file, as another program would.
void Exec(const std::string& path, const char* sql) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
  sqlite3_close(db);
}

TEST(SqliteAccessStoreTest, FileFromBeforeSharesIsTakenOver) {
  const TempDir dir;
  Exec(dir / "access.db", R"sql(
    CREATE TABLE tokens (id TEXT PRIMARY KEY, digest TEXT NOT NULL UNIQUE,
      display_name TEXT NOT NULL, role INTEGER NOT NULL, project TEXT NOT NULL,
      create_time INTEGER NOT NULL, expire_time INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE worker_keys (worker TEXT PRIMARY KEY, digest TEXT NOT NULL) STRICT, WITHOUT ROWID;
    INSERT INTO tokens VALUES ('t-1', 'aa', 'ana', 2, 'lab', 5000000, 9223372036854775807);
    INSERT INTO worker_keys VALUES ('w-1', 'cc');
    PRAGMA user_version = 1;
  )sql");
  for (int i = 0; i < 2; ++i) {
    const auto stored = (*SqliteAccessStore::Open(dir / "access.db"))->Load();
    ASSERT_THAT(stored, IsOk());
    ASSERT_EQ(stored->tokens.size(), 1U);
    EXPECT_EQ(stored->tokens[0].id, "t-1");
    EXPECT_EQ(stored->tokens[0].resource, "");
    EXPECT_EQ(stored->worker_keys.size(), 1U);
  }
}

TEST(SqliteAccessStoreTest, FileOfANewerProgramIsRefused) {
  const TempDir dir;
  Exec(dir / "access.db", "PRAGMA user_version = 1000");
  EXPECT_THAT(SqliteAccessStore::Open(dir / "access.db").status(),
              StatusIs(StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace nerf
