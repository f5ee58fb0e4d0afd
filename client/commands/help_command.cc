// Commands about the commands: help, completion, and the hidden __man.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <ostream>

#include "client/calls/session.h"
#include "client/commands/command_line.h"
#include "client/commands/command_table.h"
#include "client/commands/commands.h"
#include "client/commands/completion.h"
#include "client/commands/man_page.h"
#include "common/edit_distance.h"
#include "common/process/exit_code.h"
#include "fmt/format.h"

namespace nerf {
namespace {

int Help(Session& session, CLI::App& app, const std::vector<std::string>& words) {
  const std::vector<CLI::App*> path = ChosenPath(app, words);
  if (path.size() <= words.size()) {
    const std::string& wrong = words[path.size() - 1];
    std::vector<std::string> known;
    for (const CLI::App* command : Subcommands(*path.back())) known.push_back(command->get_name());
    return session.FailUsage(absl::InvalidArgumentError(fmt::format(
        "no such command: '{}'{}", wrong.substr(0, 64), DidYouMean(wrong.substr(0, 64), known))));
  }
  for (CLI::App* chosen : path) AddEnvironmentTwins(*chosen, {});
  *session.io().out << HelpText(path);
  return kOk;
}

int PrintCompletionScript(Session& session, const std::string& shell) {
  const std::string script = CompletionScript(shell);
  if (script.empty()) {
    constexpr std::string_view kShells[] = {"bash", "zsh", "fish"};
    return session.FailUsage(absl::InvalidArgumentError("completion: " + NotOneOf(shell, kShells)));
  }
  *session.io().out << script;
  return kOk;
}

}  // namespace

void AddHelpCommand(CLI::App& app, Command* selected) {
  CLI::App* help = app.add_subcommand("help", "Print the help of a command");
  auto words = std::make_shared<std::vector<std::string>>();
  help->add_option("command", *words, "The command, such as: job watch");
  help->footer("Example:\n  nerfctl help job watch");
  help->callback([=, &app] {
    *selected = [=, &app](Session& session) { return Help(session, app, *words); };
  });

  CLI::App* man = app.add_subcommand("__man", "Print the manual page");
  man->group("");  // hidden: the build makes nerfctl.1 with it
  man->callback([=, &app] {
    *selected = [&app](Session& session) {
      *session.io().out << ManPage(app);
      return static_cast<int>(kOk);
    };
  });
}

void AddCompletionCommand(CLI::App& app, Command* selected) {
  CLI::App* completion = app.add_subcommand("completion", "Print the completion script of a shell");
  auto shell = std::make_shared<std::string>();
  completion->add_option("shell", *shell, "bash, zsh or fish")->required();
  completion->footer(
      "Completes commands, flags, settings and the names of scenes, jobs and models.\n"
      "Examples:\n"
      "  source <(nerfctl completion bash)\n"
      "  source <(nerfctl completion zsh)\n"
      "  nerfctl completion fish | source");
  completion->callback([=] {
    *selected = [shell](Session& session) { return PrintCompletionScript(session, *shell); };
  });
}

}  // namespace nerf
