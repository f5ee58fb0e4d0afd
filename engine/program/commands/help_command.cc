#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "common/edit_distance.h"
#include "engine/program/console/command.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr size_t kMaxShownWord = 64;  // bytes of a word of the command line

int PrintHelp(const CLI::App& app, const std::string& command) {
  if (command.empty()) {
    // app.help() would be that of the command that was chosen, which is help.
    fmt::print("{}",
               app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal));
    return kOk;
  }
  std::vector<std::string> names;
  for (const CLI::App* known : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (known->get_name() != command) {
      names.push_back(known->get_name());
      continue;
    }
    fmt::print("{}", known->help(app.get_name()));
    return kOk;
  }
  const std::string shown = command.substr(0, kMaxShownWord);
  return ReportError(absl::InvalidArgumentError(
                         fmt::format("no such command: '{}'{}", shown, DidYouMean(shown, names))),
                     false, true);
}

}  // namespace

void AddHelpCommand(CLI::App* app, CommandBody* chosen) {
  auto name = std::make_shared<std::string>();
  CLI::App* command = app->add_subcommand("help", "Print the help of a command");
  command->add_option("COMMAND", *name, "such as train");
  command->footer("Example:\n  nerf-engine help train");
  command->callback([=] { *chosen = [=] { return PrintHelp(*app, *name); }; });
}

}  // namespace nerf
