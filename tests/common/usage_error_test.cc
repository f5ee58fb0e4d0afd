#include "common/usage_error.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>

namespace nerf {
namespace {

// What is printed for the words of a command line, the last one first.
std::string TextFor(CLI::App& app, std::vector<std::string> reversed) {
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    return UsageErrorText(app, error);
  }
  return "";
}

TEST(UsageErrorTest, MisspelledFlagOfAProgramWithoutCommands) {
  CLI::App app;
  std::string text;
  app.add_option("--listen", text);
  EXPECT_EQ(TextFor(app, {"x", "--lisen"}), "no such flag: '--lisen'; did you mean --listen?");
  EXPECT_EQ(TextFor(app, {"--lisen=x"}), "no such flag: '--lisen'; did you mean --listen?");
  EXPECT_EQ(TextFor(app, {"--frobnicate"}), "no such flag: '--frobnicate'");
  EXPECT_EQ(TextFor(app, {"--listen"}), "--listen: 1 required TEXT missing");
}

TEST(UsageErrorTest, CommandsAndTheFlagsThatMayFollowThem) {
  for (const bool falls_through : {false, true}) {
    CLI::App app;
    app.fallthrough(falls_through);
    app.require_subcommand(1);
    std::string level;
    app.add_option("--log-level", level);
    app.add_subcommand("train")->add_option("--steps", level);
    app.add_subcommand("__man")->group("");
    EXPECT_EQ(TextFor(app, {"trian"}), "no such command: 'trian'; did you mean train?");
    EXPECT_EQ(TextFor(app, {"__men"}), "no such command: '__men'");
    EXPECT_EQ(TextFor(app, {"1", "--stpes", "train"}),
              "no such flag: '--stpes'; did you mean --steps?");
    EXPECT_EQ(TextFor(app, {"x", "--log-levle", "train"}),
              falls_through ? "no such flag: '--log-levle'; did you mean --log-level?"
                            : "no such flag: '--log-levle'");
    EXPECT_NE(TextFor(app, {}).find("subcommand is required"), std::string::npos);
  }
}

TEST(OneOfTest, ChecksTheValueOfAnOption) {
  CLI::App app;
  std::string role;
  app.add_option("--role", role)->check(OneOf({"viewer", "editor"}));
  EXPECT_EQ(TextFor(app, {"--role=editor"}), "");
  EXPECT_EQ(TextFor(app, {"--role=veiwer"}),
            "--role: 'veiwer' is not one of viewer, editor; did you mean viewer?");
}

}  // namespace
}  // namespace nerf
