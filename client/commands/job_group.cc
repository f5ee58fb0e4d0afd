#include "client/commands/job_group.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <memory>

#include "client/calls/paging.h"
#include "fmt/format.h"

namespace nerf {

CLI::App* AddJobGroup(CLI::App& app, const JobGroup& group, Command* selected) {
  CLI::App* command = app.add_subcommand(group.noun, group.text);
  command->require_subcommand(1);
  command->footer(fmt::format("Example:\n  nerfctl {} watch {}", group.noun, group.example));
  std::string people = group.noun, argument = group.noun;
  std::replace(people.begin(), people.end(), '-', ' ');
  std::replace(argument.begin(), argument.end(), '-', '_');
  CLI::App* ls = command->add_subcommand("ls", fmt::format("List {}s, newest first", people));
  auto limit = AddLimitFlag(*ls);
  ls->footer(fmt::format("Example:\n  nerfctl {} ls --limit 5", group.noun));
  ls->callback([=, list = group.list] { *selected = [=](Session& s) { return list(s, *limit); }; });
  for (const JobVerb& verb : group.verbs) {
    CLI::App* one = command->add_subcommand(verb.name, verb.text);
    one->footer(fmt::format("Example:\n  nerfctl {} {} {}", group.noun, verb.name, group.example));
    auto name = std::make_shared<std::string>();
    one->add_option(argument, *name, fmt::format("Name of the {}", people))->required();
    one->callback([=, run = verb.run] { *selected = [=](Session& s) { return run(s, *name); }; });
  }
  CLI::App* rm = command->add_subcommand("rm", group.remove_text);
  auto removed = std::make_shared<std::vector<std::string>>();
  rm->add_option(argument, *removed, fmt::format("Names of {}s", people))->required();
  rm->footer(fmt::format("Example:\n  nerfctl {} rm {}", group.noun, group.example));
  rm->callback(
      [=, remove = group.remove] { *selected = [=](Session& s) { return remove(s, *removed); }; });
  return command;
}

}  // namespace nerf
