#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace nerf {

// What is wrong with a command line that CLI11 refused, a line for each wrong value and unknown
// flag, without a newline at the end. For a flag or command that does not exist, the nearest one
// that does, or what it is called here: "no such flag: '--lisen'; did you mean --listen?". Where a
// command is missing, the list of them. Reads the options again, so that their variables change.
std::string UsageErrorText(CLI::App& app, const CLI::ParseError& error);

// The command that was chosen, with the program: "nerfctl job show".
std::string ChosenCommand(const CLI::App& app);

// All that a program prints for such an error, with a newline at the end:
//   PROGRAM: UsageErrorText, whose other lines are indented
//     run `PROGRAM COMMAND --help` for usage
// `prefix` replaces PROGRAM in the first line unless it is empty.
std::string UsageErrorLines(CLI::App& app, const CLI::ParseError& error,
                            const std::string& prefix = "");

// For CLI11's Option::check: the error of a value that is none of the words (NotOneOf), else "".
std::function<std::string(const std::string&)> OneOf(std::vector<std::string> words);

}  // namespace nerf
