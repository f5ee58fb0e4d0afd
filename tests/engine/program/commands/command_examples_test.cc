// Parses the examples of every command's help; the commands themselves do not run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "common/usage_error.h"
#include "engine/program/console/command.h"
#include "tests/testing/paths.h"

namespace nerf {
namespace {

// The examples in a help text, one line each.
std::vector<std::string> ExamplesIn(const std::string& help) {
  std::vector<std::string> examples;
  const size_t begin = help.find("\nExample");
  if (begin == std::string::npos) return examples;
  std::istringstream lines(help.substr(begin));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  ")) continue;
    line.erase(0, line.find_first_not_of(' '));
    while (line.ends_with('\\')) {
      std::string rest;
      std::getline(lines, rest);
      line.back() = ' ';
      line += rest;
    }
    examples.push_back(line);
  }
  return examples;
}

// What is wrong with a command line; empty if it can run.
std::string ErrorOf(const std::string& line) {
  CLI::App app("", "nerf-engine");
  CommandBody chosen;
  AddAllCommands(&app, &chosen);
  try {
    app.parse(line, /*program_name_included=*/true);
  } catch (const CLI::ParseError& error) {
    return UsageErrorText(app, error);
  }
  return chosen == nullptr ? "no command was chosen" : "";
}

TEST(CommandExamplesTest, EveryCommandHasExamplesOfItselfThatParse) {
  CLI::App app("", "nerf-engine");
  CommandBody chosen;
  AddAllCommands(&app, &chosen);
  for (const std::string& example : ExamplesIn(app.help())) EXPECT_EQ(ErrorOf(example), "");
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  EXPECT_GE(commands.size(), 13u);
  for (const CLI::App* command : commands) {
    const std::vector<std::string> examples = ExamplesIn(command->help());
    EXPECT_THAT(examples, ::testing::Not(::testing::IsEmpty())) << command->get_name();
    for (const std::string& example : examples) {
      EXPECT_THAT(example, ::testing::StartsWith("nerf-engine " + command->get_name()));
      EXPECT_EQ(ErrorOf(example), "") << example;
      // Only these folders are the reader's own.
      if (const size_t at = example.find("examples/"); at != std::string::npos) {
        const std::string path = example.substr(at, example.find(' ', at) - at);
        EXPECT_TRUE(std::filesystem::exists(SourceDir() + "/" + path)) << path;
      }
    }
  }
}

TEST(CommandExamplesTest, WrongExampleWouldBeFound) {
  EXPECT_THAT(ErrorOf("nerf-engine train examples/mic --seconds soon --out run"),
              ::testing::HasSubstr("--seconds: 'soon' is not a time above 0"));
}

}  // namespace
}  // namespace nerf
