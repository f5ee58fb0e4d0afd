#include "common/files/atomic_file.h"

#include <sys/stat.h>

#include <filesystem>

#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

size_t CountEntries(const std::string& folder) {
  size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++n;
  return n;
}

TEST(AtomicFileTest, CommitReplacesTheWholeFile) {
  TempDir dir;
  ASSERT_THAT(WriteFileAtomically(dir / "f", "a longer old content"), IsOk());
  ASSERT_THAT(WriteFileAtomically(dir / "f", "new"), IsOk());
  EXPECT_THAT(ReadFile(dir / "f", 100), IsOkAndHolds(std::string("new")));
  EXPECT_EQ(CountEntries(dir.path()), 1u);
}

TEST(AtomicFileTest, WithoutCommitTheOldFileStandsAndNothingIsLeft) {
  TempDir dir;
  ASSERT_THAT(WriteFileAtomically(dir / "f", "old"), IsOk());
  {
    auto file = AtomicFile::Create(dir / "f");
    ASSERT_THAT(file, IsOk());
    ASSERT_THAT(file->Append("half"), IsOk());
    EXPECT_EQ(CountEntries(dir.path()), 2u);
  }
  EXPECT_THAT(ReadFile(dir / "f", 100), IsOkAndHolds(std::string("old")));
  EXPECT_EQ(CountEntries(dir.path()), 1u);
}

TEST(AtomicFileTest, NamesMayHaveAllTheBytesOfFileSystems) {
  TempDir dir;
  const std::string longest(255, 'a');
  ASSERT_THAT(WriteFileAtomically(dir / longest, "x"), IsOk());
  EXPECT_THAT(ReadFile(dir / longest, 100), IsOkAndHolds(std::string("x")));
  EXPECT_FALSE(AtomicFile::Create(dir / (longest + "a")).ok()) << "before any work";
  EXPECT_EQ(CountEntries(dir.path()), 1u);
}

TEST(AtomicFileTest, ModeIsThatOfTheFinalFile) {
  TempDir dir;
  ASSERT_THAT(WriteFileAtomically(dir / "token", "secret", 0600), IsOk());
  struct stat status;
  ASSERT_EQ(stat((dir / "token").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST(AtomicFileTest, MissingFolderIsNotFound) {
  TempDir dir;
  EXPECT_THAT(WriteFileAtomically(dir / "no/f", "x"), StatusIs(absl::StatusCode::kNotFound));
}

TEST(AtomicFileTest, SecondCommitIsRefused) {
  TempDir dir;
  auto file = AtomicFile::Create(dir / "f");
  ASSERT_THAT(file, IsOk());
  ASSERT_THAT(file->Commit(), IsOk());
  EXPECT_THAT(file->Commit(), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(FileIoTest, ReadFileStopsAtItsLimit) {
  TempDir dir;
  ASSERT_THAT(WriteFileAtomically(dir / "f", "12345"), IsOk());
  EXPECT_THAT(ReadFile(dir / "f", 5), IsOkAndHolds(std::string("12345")));
  EXPECT_THAT(ReadFile(dir / "f", 4),
              FailsWith(absl::StatusCode::kResourceExhausted, reason::kSizeLimit));
}

TEST(FileIoTest, FullDiskIsAStoreThatCannotBeWritten) {
  EXPECT_THAT(ErrnoToStatus(ENOSPC, "write x"),
              FailsWith(absl::StatusCode::kUnavailable, reason::kStoreReadOnly));
  EXPECT_THAT(ErrnoToStatus(EIO, "write x"), StatusIs(absl::StatusCode::kInternal, "write x: "));
}

}  // namespace
}  // namespace nerf
