#include "common/usage_error.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

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
  EXPECT_EQ(TextFor(app, {"--listen"}), "--listen needs a value");
}

TEST(UsageErrorTest, CommandsAndTheFlagsThatMayFollowThem) {
  for (const bool falls_through : {false, true}) {
    CLI::App app;
    app.fallthrough(falls_through);
    app.require_subcommand(1);
    std::string level;
    app.add_option("--log-level", level);
    app.add_subcommand("train", "Train a field\nof photographs")->add_option("--steps", level);
    app.add_subcommand("__man")->group("");
    EXPECT_EQ(TextFor(app, {"trian"}), "no such command: 'trian'; did you mean train?");
    EXPECT_EQ(TextFor(app, {"__men"}), "no such command: '__men'");
    EXPECT_EQ(TextFor(app, {"1", "--stpes", "train"}),
              "no such flag: '--stpes'; did you mean --steps?");
    EXPECT_EQ(TextFor(app, {"x", "--log-levle", "train"}),
              falls_through ? "no such flag: '--log-levle'; did you mean --log-level?"
                            : "no such flag: '--log-levle'");
    EXPECT_EQ(TextFor(app, {}), "a command is missing; there are\ntrain  Train a field");
  }
}

TEST(UsageErrorTest, NamesOfOtherProgramsAreKnown) {
  CLI::App app("", "nerfctl");
  app.require_subcommand(1);
  CLI::App* job = app.add_subcommand("job");
  job->require_subcommand(1);
  job->add_subcommand("show");
  int side = 0;
  CLI::App* render = app.add_subcommand("render");
  render->add_option("--width", side);
  render->add_option("--height", side);
  EXPECT_EQ(TextFor(app, {"j-1", "get", "job"}), "no such command: 'get'; did you mean show?");
  EXPECT_EQ(TextFor(app, {"400x300", "--size", "render"}),
            "no such flag: '--size'; did you mean --width and --height?");
  // Nothing is deleted here, so rm is not suggested.
  EXPECT_EQ(TextFor(app, {"j-1", "delete", "job"}), "no such command: 'delete'");
}

TEST(UsageErrorTest, WordsThatAreNotNeededAreNamed) {
  CLI::App app("", "nerfd");
  std::string text;
  app.add_option("--listen", text);
  EXPECT_EQ(TextFor(app, {"serve"}), "nerfd takes flags alone: leave out 'serve'");
  CLI::App* train = app.add_subcommand("train");
  train->add_option("folder", text);
  EXPECT_EQ(TextFor(app, {"b", "a", "train"}), "'b' is one word too many for nerfd train");
}

TEST(UsageErrorTest, MissingValueDoesNotHideAFlagThatDoesNotExist) {
  CLI::App app("", "nerf-engine");
  std::string text;
  CLI::App* pose = app.add_subcommand("pose");
  pose->add_option("--out", text)->required();
  pose->add_option("--threads", text);
  EXPECT_EQ(TextFor(app, {"4", "--thread", "pose"}),
            "--out is required\nno such flag: '--thread'; did you mean --threads?");
  try {
    app.parse("pose --thread 4");
    ADD_FAILURE() << "accepted";
  } catch (const CLI::ParseError& error) {
    EXPECT_EQ(UsageErrorLines(app, error),
              "nerf-engine: --out is required\n"
              "  no such flag: '--thread'; did you mean --threads?\n"
              "  run `nerf-engine pose --help` for usage\n");
  }
}

TEST(UsageErrorTest, EveryWrongFlagAndValueIsNamed) {
  CLI::App app("", "nerf-engine");
  app.require_subcommand(1);
  int threads = 0, seed = 0;
  double rate = 0;
  std::string split;
  std::vector<std::string> settings;
  CLI::App* train = app.add_subcommand("train");
  train->add_option("--threads", threads)->check(CLI::Range(0, 1024));
  train->add_option("--seed", seed);
  train->add_option("--rate", rate);
  train->add_option("--split", split)->check(OneOf({"test", "train"}));
  train->add_option("--set", settings)->allow_extra_args(false);
  EXPECT_EQ(TextFor(app, {"3", "--baz", "-7", "--bar=4", "5", "--thread", "--baz", "train"}),
            "no such flag: '--baz'\nno such flag: '--thread'; did you mean --threads?\n"
            "no such flag: '--bar'");
  EXPECT_EQ(
      TextFor(app, {"--foo", "a=1", "--set", "tset", "--split", "x", "--rate", "1.5", "--seed",
                    "2000", "--threads", "train"}),
      "--threads: '2000' is not a number from 0 to 1024\n--seed: '1.5' is not a whole number\n"
      "--rate: 'x' is not a number\n"
      "--split: 'tset' is not one of test, train; did you mean test?\n"
      "no such flag: '--foo'");
}

TEST(UsageErrorTest, FlagThatIsGivenTwiceIsSaidInPlainWords) {
  CLI::App app("", "nerfctl");
  int limit = 0;
  app.add_option("--limit", limit);
  EXPECT_EQ(TextFor(app, {"2", "--limit", "1", "--limit"}),
            "--limit is given 2 times, and can be given once");
}

TEST(UsageErrorTest, FarFetchedNamesAreNotProposed) {
  CLI::App app("", "nerf-engine");
  std::string text;
  app.add_option("--help-settings", text);
  app.add_option("--test-every", text);
  app.add_option("--background", text);
  app.add_option("--out", text);
  EXPECT_EQ(TextFor(app, {"--sheet"}), "no such flag: '--sheet'");
  EXPECT_EQ(TextFor(app, {"--bob"}), "no such flag: '--bob'");
  EXPECT_EQ(TextFor(app, {"--outt"}), "no such flag: '--outt'; did you mean --out?");
  EXPECT_EQ(TextFor(app, {"--test"}), "no such flag: '--test'; did you mean --test-every?");
  EXPECT_EQ(TextFor(app, {"--background-color"}),
            "no such flag: '--background-color'; did you mean --background?");
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
