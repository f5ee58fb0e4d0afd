#include "common/usage_error.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "common/edit_distance.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// The flag or command that the parser did not know; "" if something else is wrong.
std::string UnknownWord(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> rest = app.remaining(/*recurse=*/true);
  const auto flag = std::find_if(rest.begin(), rest.end(),
                                 [](const std::string& word) { return word.starts_with('-'); });
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError) &&
      flag != rest.end()) {
    return flag->substr(0, std::min<size_t>(flag->find('='), 64));
  }
  // For an unknown command the parser's error is "a subcommand is required".
  const bool needs_command = error.get_name() == "RequiredError" &&
                             std::string_view(error.what()).find("subcommand") != std::string::npos;
  return needs_command && !rest.empty() ? rest[0].substr(0, 64) : "";
}

// The commands and flags that could have followed what was parsed.
std::vector<std::string> KnownWords(const CLI::App& app) {
  std::vector<const CLI::App*> path = {&app};
  for (auto deeper = app.get_subcommands(); !deeper.empty();
       deeper = deeper.back()->get_subcommands()) {
    path.push_back(deeper.back());
  }
  const CLI::App& last = *path.back();
  if (!last.get_fallthrough()) path = {&last};
  std::vector<std::string> words;
  // Commands of the empty group are hidden.
  const auto is_shown = [](const CLI::App* command) { return !command->get_group().empty(); };
  for (const CLI::App* command : last.get_subcommands(is_shown))
    words.push_back(command->get_name());
  for (const CLI::App* parsed : path) {
    for (const CLI::Option* option : parsed->get_options()) {
      for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
    }
  }
  return words;
}

}  // namespace

std::string UsageErrorText(const CLI::App& app, const CLI::ParseError& error) {
  if (const std::string wrong = UnknownWord(app, error); !wrong.empty()) {
    return fmt::format("no such {}: '{}'{}", wrong.starts_with('-') ? "flag" : "command", wrong,
                       DidYouMean(wrong, KnownWords(app)));
  }
  std::string text = error.what();
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

std::function<std::string(const std::string&)> OneOf(std::vector<std::string> words) {
  return [words = std::move(words)](const std::string& value) {
    if (std::find(words.begin(), words.end(), value) != words.end()) return std::string();
    return NotOneOf(value, std::vector<std::string_view>(words.begin(), words.end()));
  };
}

}  // namespace nerf
