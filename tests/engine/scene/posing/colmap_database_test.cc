// Databases as COLMAP writes them, and others in their place.
#include "engine/scene/posing/photographs/colmap_database.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include "common/files/file_io.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

constexpr char kTables[] =
    "CREATE TABLE images (image_id INTEGER PRIMARY KEY, name TEXT);"
    "CREATE TABLE keypoints (image_id INTEGER PRIMARY KEY, rows INTEGER);"
    "CREATE TABLE two_view_geometries (pair_id INTEGER PRIMARY KEY, rows INTEGER);";

class ColmapDatabaseTest : public ::testing::Test {
 protected:
  void Make(const std::string& statements) {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &database), SQLITE_OK);
    char* error = nullptr;
    EXPECT_EQ(sqlite3_exec(database, statements.c_str(), nullptr, nullptr, &error), SQLITE_OK)
        << error;
    sqlite3_close(database);
  }

  TempDir dir_;
  const std::string path_ = dir_ / "database.db";
};

TEST_F(ColmapDatabaseTest, FeaturesAndPairsAreReadByName) {
  Make(std::string(kTables) +
       "INSERT INTO images VALUES (1, 'b.jpg'), (2, 'a.jpg'), (3, 'c.jpg');"
       "INSERT INTO keypoints VALUES (1, 700), (2, 800);"
       // A pair's id is first * 2147483647 + second.
       "INSERT INTO two_view_geometries VALUES (2147483649, 40), (2147483650, 0);");
  const auto database = ReadColmapDatabase(path_);
  ASSERT_THAT(database, IsOk());
  EXPECT_EQ(database->n_features.at("a.jpg"), 800u);
  EXPECT_EQ(database->n_features.at("c.jpg"), 0u) << "without features";
  ASSERT_EQ(database->pairs.size(), 1u) << "pairs without points are none";
  EXPECT_EQ(database->pairs[0].first, "a.jpg");
  EXPECT_EQ(database->pairs[0].second, "b.jpg");
  EXPECT_EQ(database->pairs[0].n_inliers, 40u);
}

TEST_F(ColmapDatabaseTest, RowsThatMakeNoSenseAreLeftOut) {
  Make(std::string(kTables) +
       "INSERT INTO images VALUES (1, NULL), (2, 'a.jpg'), (-3, 'b.jpg');"
       "INSERT INTO keypoints VALUES (2, -5), (-3, 'many'), (9, 10);"
       "INSERT INTO two_view_geometries VALUES (2147483649, 40), (-1, 5), (0, 5),"
       " (9223372036854775807, 5), (4294967296, 'x');");
  const auto database = ReadColmapDatabase(path_);
  ASSERT_THAT(database, IsOk());
  EXPECT_EQ(database->n_features.size(), 2u);
  EXPECT_EQ(database->n_features.at("a.jpg"), 0u);
  EXPECT_EQ(database->n_features.at("b.jpg"), 0u);
  EXPECT_TRUE(database->pairs.empty());
}

TEST_F(ColmapDatabaseTest, OtherFilesAreNoDatabase) {
  EXPECT_THAT(ReadColmapDatabase(path_), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(ReadColmapDatabase(dir_.path()), StatusIs(absl::StatusCode::kNotFound));
  dir_.Write("database.db",
             "this is text, and longer than the header of a database would be, "
             "which has one hundred bytes of its own");
  EXPECT_THAT(ReadColmapDatabase(path_), StatusIs(absl::StatusCode::kDataLoss, "database.db"));
  dir_.Write("database.db", "");
  EXPECT_THAT(ReadColmapDatabase(path_), StatusIs(absl::StatusCode::kDataLoss, "no such table"));
}

TEST_F(ColmapDatabaseTest, DatabaseThatIsCutOffIsDamaged) {
  std::string rows = kTables + std::string("BEGIN;");  // else each row waits for the disk
  for (int i = 1; i < 400; ++i) {
    const std::string id = std::to_string(i);
    rows += "INSERT INTO images VALUES (" + id + ", '" + std::string(60, 'x') + id + "');";
  }
  Make(rows + "COMMIT;");
  const std::string whole = *ReadFile(path_, 1 << 20);
  for (const size_t size : {whole.size() / 4, whole.size() / 2, whole.size() - 4096}) {
    dir_.Write("database.db", whole.substr(0, size));
    EXPECT_THAT(ReadColmapDatabase(path_), StatusIs(absl::StatusCode::kDataLoss)) << size;
  }
}

}  // namespace
}  // namespace nerf
