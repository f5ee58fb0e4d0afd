#include "common/rpc/channel.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

TEST(ChannelTest, TokenFileIsReadWithoutItsNewline) {
  TempDir dir;
  std::ofstream(dir / "token") << "abc.DEF-1\n";
  EXPECT_THAT(ReadTokenFile(dir / "token"), IsOkAndHolds("abc.DEF-1"));
}

TEST(ChannelTest, BadTokenFilesAreNamed) {
  TempDir dir;
  EXPECT_THAT(ReadTokenFile(dir / "none"), StatusIs(absl::StatusCode::kNotFound, "none"));
  const struct {
    const char* name;
    std::string content;
  } kCases[] = {{"empty", " \n"},
                {"long", std::string(5000, 'a')},
                {"split", "a b"},
                {"binary", std::string("a\0b", 3)},
                {"header", "a\nx-other: 1"}};
  for (const auto& bad : kCases) {
    std::ofstream(dir / bad.name) << bad.content;
    EXPECT_THAT(ReadTokenFile(dir / bad.name),
                StatusIs(absl::StatusCode::kInvalidArgument, bad.name));
  }
}

}  // namespace
}  // namespace nerf
