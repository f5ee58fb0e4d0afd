#include "common/files/sha256.h"

#include "common/files/atomic_file.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

// FIPS 180-2, appendix B, and the empty string.
TEST(Sha256Test, KnownDigests) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256Test, PiecesGiveTheDigestOfTheWholeAndCanGoOn) {
  Sha256 sha;
  sha.Update("a");
  EXPECT_EQ(sha.HexDigest(), Sha256Hex("a"));
  sha.Update("");
  sha.Update("bc");
  EXPECT_EQ(sha.HexDigest(), Sha256Hex("abc"));
}

TEST(Sha256Test, FileDigestEqualsThatOfItsBytes) {
  TempDir dir;
  const std::string content(1'000'000, 'x');
  ASSERT_THAT(WriteFileAtomically(dir / "f", content), IsOk());
  EXPECT_THAT(Sha256OfFile(dir / "f"), IsOkAndHolds(Sha256Hex(content)));
  EXPECT_THAT(Sha256OfFile(dir / "none"), StatusIs(absl::StatusCode::kNotFound, "none"));
  EXPECT_FALSE(Sha256OfFile(dir.path()).ok());
}

TEST(Sha256Test, OnlyLowerCaseHexOfTheRightLengthIsADigest) {
  EXPECT_TRUE(IsSha256Hex(std::string(64, 'a')));
  EXPECT_FALSE(IsSha256Hex(std::string(64, 'A')));
  EXPECT_FALSE(IsSha256Hex(std::string(64, 'g')));
  EXPECT_FALSE(IsSha256Hex(std::string(63, 'a')));
  EXPECT_FALSE(IsSha256Hex("../" + std::string(61, 'a')));
}

}  // namespace
}  // namespace nerf
