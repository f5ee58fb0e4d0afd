#include "client/commands/command_table.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace nerf {

std::vector<CLI::App*> ChosenPath(CLI::App& root, const std::vector<std::string>& words) {
  std::vector<CLI::App*> path = {&root};
  for (size_t i = 0; i < words.size(); ++i) {
    if (!words[i].empty() && words[i][0] == '-') {
      // The value of a flag may look like a command.
      const CLI::Option* option = FindFlag(path, words[i]);
      if (option != nullptr && TakesValue(*option)) ++i;
      continue;
    }
    const auto matching = path.back()->get_subcommands(
        [&](const CLI::App* candidate) { return candidate->get_name() == words[i]; });
    if (matching.empty()) break;
    path.push_back(matching[0]);
  }
  return path;
}

const CLI::Option* FindFlag(const std::vector<CLI::App*>& path, const std::string& word) {
  for (const CLI::App* app : path) {
    const CLI::Option* option = app->get_option_no_throw(word);
    if (option != nullptr) return option;
  }
  return nullptr;
}

bool TakesValue(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

std::vector<CLI::App*> Subcommands(CLI::App& app) {
  return app.get_subcommands(
      [](const CLI::App* candidate) { return !candidate->get_group().empty(); });
}

std::string HelpText(const std::vector<CLI::App*>& path) {
  std::string name;
  for (const CLI::App* app : path) name += (name.empty() ? "" : " ") + app->get_name();
  const CLI::App* last = path.back();
  return last->get_formatter()->make_help(last, name, CLI::AppFormatMode::Normal);
}

}  // namespace nerf
