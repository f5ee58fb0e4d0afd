#include "common/shell_word.h"

#include "gtest/gtest.h"

namespace nerf {
namespace {

TEST(ShellWordTest, PathsAreQuotedWhereAShellWouldSplitThem) {
  EXPECT_EQ(ShellWord("photos/2026-11_a.b"), "photos/2026-11_a.b");
  EXPECT_EQ(ShellWord("my photos"), "'my photos'");
  EXPECT_EQ(ShellWord("$(reboot)"), "'$(reboot)'");
  EXPECT_EQ(ShellWord("grandma's"), "'grandma'\\''s'");
  EXPECT_EQ(ShellWord(""), "''");
  EXPECT_EQ(ShellWord("-photos"), "./-photos");
  EXPECT_EQ(ShellWord("H\xC3\xA4user"), "H\xC3\xA4user");
  EXPECT_EQ(ShellWord("alte H\xC3\xA4user"), "'alte H\xC3\xA4user'");
}

}  // namespace
}  // namespace nerf
