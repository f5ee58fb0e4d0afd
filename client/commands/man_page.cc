#include "client/commands/man_page.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/commands/command_table.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// Escapes text, so that roff prints it unchanged.
std::string Escaped(const std::string& text) {
  std::string escaped = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}});
  // roff would read a line that begins with . or ' as a command.
  if (!escaped.empty() && (escaped[0] == '.' || escaped[0] == '\'')) escaped = "\\&" + escaped;
  return escaped;
}

std::string Lines(const std::string& text) {
  std::string lines;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    lines += Escaped(line) + "\n";
  }
  return lines;
}

std::string FlagNames(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_snames()) {
    names += (names.empty() ? "\\-" : ", \\-") + Escaped(name);
  }
  for (const std::string& name : option.get_lnames()) {
    names += (names.empty() ? "\\-\\-" : ", \\-\\-") + Escaped(name);
  }
  return names;
}

std::string Options(const CLI::App& app, bool with_help) {
  std::string text;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty() || (option == app.get_help_ptr() && !with_help)) continue;
    const bool positional = option->get_lnames().empty() && option->get_snames().empty();
    text += positional
                ? fmt::format(".TP\n.I {}\n", Escaped(option->get_name(true)))
                : fmt::format(".TP\n.B {}{}\n", FlagNames(*option),
                              TakesValue(*option) ? " " + Escaped(option->get_type_name()) : "");
    text += Lines(option->get_description());
  }
  return text;
}

// A command with its subcommands.
std::string CommandText(CLI::App& app, const std::string& name) {
  std::string text;
  const std::vector<CLI::App*> deeper = Subcommands(app);
  if (deeper.empty()) {
    text += fmt::format(".SS {}\n{}", Escaped(name), Lines(app.get_description()));
    text += Options(app, /*with_help=*/false);
    if (!app.get_footer().empty()) {
      text += ".PP\n.nf\n" + Lines(app.get_footer()) + ".fi\n";
    }
  }
  for (CLI::App* command : deeper) {
    text += CommandText(*command, name + " " + command->get_name());
  }
  return text;
}

}  // namespace

std::string ManPage(CLI::App& root) {
  const std::string name = root.get_name();
  std::string text = fmt::format(".TH {} 1 \"\" \"nerfd " NERF_VERSION "\"\n", name);
  text += fmt::format(".SH NAME\n{} \\- {}", name, Lines(root.get_description()));
  text += fmt::format(".SH SYNOPSIS\n.B {}\n[flags] command [arguments]\n", name);
  text += ".SH COMMANDS\n";
  for (CLI::App* command : Subcommands(root)) {
    text += CommandText(*command, command->get_name());
  }
  text += ".SH FLAGS OF EVERY COMMAND\n" + Options(root, /*with_help=*/true);
  text += ".SH EXAMPLES AND EXIT CODES\n.nf\n" + Lines(root.get_footer()) + ".fi\n";
  return text;
}

}  // namespace nerf
