#include "common/usage_error.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "common/edit_distance.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace nerf {
namespace {

constexpr size_t kMaxShown = 64;  // bytes of a word of the command line

// Names that other programs have for a command or flag. The first one that exists here counts.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"get", "show"},
    {"get", "ls"},
    {"describe", "show"},
    {"info", "show"},
    {"info", "inspect"},
    {"status", "show"},
    {"list", "ls"},
    {"delete", "rm"},
    {"remove", "rm"},
    {"stop", "cancel"},
    {"kill", "cancel"},
    {"abort", "cancel"},
    {"new", "create"},
    {"add", "create"},
    {"submit", "create"},
    {"follow", "watch"},
    {"logs", "watch"},
    {"attach", "watch"},
    {"evaluate", "eval"},
    {"validate", "check"},
    {"colmap", "pose"},
    {"--output", "--out"},
    {"--output-dir", "--out"},
    {"--out-dir", "--out"},
    {"--epochs", "--steps"},
    {"--iterations", "--steps"},
    {"--iters", "--steps"},
    {"--time", "--seconds"},
    {"--duration", "--seconds"},
    {"--gpu", "--device"},
    {"--views", "--frames"},
    {"--progress", "--json"},
};

// Words for what an export makes, and the flag for it of commands that have --triangles.
constexpr std::pair<std::string_view, std::string_view> kProducts[] = {
    {"--viewer", "--out FILE.html"},
    {"--mesh", "--out FILE.glb or --out FILE.ply"},
    {"--volume", "--out FILE.vdb or --out FILE.nvdb"},
    {"--views", "--out FILE.zip"},
    {"--points", "--format points"},
    {"--splats", "--format splats"},
    {"--cameras", "--format cameras"},
    {"--nerfstudio-path", "--format nerfstudio-path"},
    {"--ngp-path", "--format ngp-path"},
};

// Flags that other programs have for a size. Here width and height are two flags.
constexpr std::string_view kSizeFlags[] = {"--size", "--resolution"};

// The app and the commands that were chosen, the innermost last.
std::vector<const CLI::App*> ChosenApps(const CLI::App& app) {
  std::vector<const CLI::App*> path = {&app};
  for (auto deeper = app.get_subcommands(); !deeper.empty();
       deeper = deeper.back()->get_subcommands()) {
    path.push_back(deeper.back());
  }
  return path;
}

// Commands of the empty group are hidden.
std::vector<const CLI::App*> ShownCommands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

// The commands and flags that could have followed what was parsed.
std::vector<std::string> KnownWords(const CLI::App& app) {
  std::vector<const CLI::App*> path = ChosenApps(app);
  const CLI::App& last = *path.back();
  if (!last.get_fallthrough()) path = {&last};
  std::vector<std::string> words;
  for (const CLI::App* command : ShownCommands(last)) words.push_back(command->get_name());
  for (const CLI::App* parsed : path) {
    for (const CLI::Option* option : parsed->get_options()) {
      for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
    }
  }
  return words;
}

std::string_view WithoutDashes(std::string_view word) {
  return word.substr(std::min(word.find_first_not_of('-'), word.size()));
}

// The known word of the same kind that `wrong` misspells, or that one of the two begins with; "" if
// there is none. The dashes of flags do not count as letters.
std::string Nearest(std::string_view wrong, const std::vector<std::string>& known) {
  constexpr size_t kLeastBeginning = 4;
  const std::string_view bare = WithoutDashes(wrong);
  std::vector<std::string> names;  // without dashes
  std::string begun;
  for (const std::string& word : known) {
    if (word.starts_with('-') != wrong.starts_with('-')) continue;
    const std::string_view name = WithoutDashes(word);
    names.emplace_back(name);
    const bool begins = (name.starts_with(bare) && bare.size() >= kLeastBeginning) ||
                        (bare.starts_with(name) && name.size() >= kLeastBeginning);
    if (begun.empty() && begins) begun = word;
  }
  const std::string nearest = NearestWord(bare, names);
  if (nearest.empty()) return begun;
  return (wrong.starts_with('-') ? "--" : "") + nearest;
}

// "; did you mean show?", or "" where nothing is like the word.
std::string Suggestion(const std::string& wrong, const std::vector<std::string>& known) {
  const auto exists = [&](std::string_view word) {
    return std::find(known.begin(), known.end(), word) != known.end();
  };
  const bool is_size =
      std::find(std::begin(kSizeFlags), std::end(kSizeFlags), wrong) != std::end(kSizeFlags);
  if (is_size && exists("--width") && exists("--height"))
    return "; did you mean --width and --height?";
  for (const auto& [product, flag] : kProducts) {
    if (product == wrong && exists("--triangles")) return fmt::format("; did you mean {}?", flag);
  }
  for (const auto& [other, name] : kOtherNames) {
    if (other == wrong && exists(name)) return fmt::format("; did you mean {}?", name);
  }
  const std::string nearest = Nearest(wrong, known);
  return nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest);
}

std::string NoSuch(const CLI::App& app, const std::string& word) {
  const std::string wrong = word.substr(0, std::min(word.find('='), kMaxShown));
  return fmt::format("no such {}: '{}'{}", wrong.starts_with('-') ? "flag" : "command", wrong,
                     Suggestion(wrong, KnownWords(app)));
}

std::string CommandList(const CLI::App& app) {
  const std::vector<const CLI::App*> commands = ShownCommands(app);
  size_t width = 0;
  for (const CLI::App* command : commands) width = std::max(width, command->get_name().size());
  std::string text = "a command is missing; there are";
  for (const CLI::App* command : commands) {
    const std::string& help = command->get_description();
    text +=
        fmt::format("\n{:<{}}  {}", command->get_name(), width, help.substr(0, help.find('\n')));
  }
  return text;
}

// A word beyond those that the command takes.
std::string SuperfluousWord(const CLI::App& app, const std::string& word) {
  const std::string shown = word.substr(0, kMaxShown);
  const CLI::App& last = *ChosenApps(app).back();
  const std::vector<const CLI::Option*> options = last.get_options();
  const bool takes_words = std::any_of(options.begin(), options.end(),
                                       [](const auto* option) { return option->get_positional(); });
  const std::string command = ChosenCommand(app);
  if (takes_words) return fmt::format("'{}' is one word too many for {}", shown, command);
  return fmt::format("{} takes flags alone: leave out '{}'", command, shown);
}

// "no such flag" of each flag in the words that the parser left over, each once.
std::vector<std::string> UnknownFlags(const CLI::App& app, const std::vector<std::string>& rest) {
  std::vector<std::string> texts;
  for (const std::string& word : rest) {
    const std::string_view name = WithoutDashes(word);
    const bool is_number = !name.empty() && (name[0] == '.' || (name[0] >= '0' && name[0] <= '9'));
    if (!word.starts_with('-') || name.empty() || (is_number && !texts.empty())) continue;
    std::string text = NoSuch(app, word);
    if (std::find(texts.begin(), texts.end(), text) == texts.end())
      texts.push_back(std::move(text));
  }
  return texts;
}

// CLI11's "--threads: Value 2000 not in range 0 to 1024", "--listen: 1 required TEXT missing" and
// "--limit: At Most 1 required but received 2" in the words of our own errors. Others stay
// unchanged.
std::string InOurWords(const std::string& text) {
  constexpr std::string_view kValue = ": Value ", kRange = " not in range ";
  constexpr std::string_view kRequired = ": 1 required ", kMissing = " missing";
  const size_t value = text.find(kValue), range = text.find(kRange);
  if (value != text.npos && range != text.npos && range > value) {
    const size_t begin = value + kValue.size();
    return fmt::format("{}: '{}' is not a number from {}", text.substr(0, value),
                       text.substr(begin, std::min(range - begin, kMaxShown)),
                       text.substr(range + kRange.size()));
  }
  const size_t required = text.find(kRequired);
  if (required != text.npos && text.ends_with(kMissing)) {
    return text.substr(0, required) + " needs a value";
  }
  constexpr std::string_view kAtMost = ": At Most 1 required but received ";
  if (const size_t at_most = text.find(kAtMost); at_most != text.npos) {
    return fmt::format("{} is given {} times, and can be given once", text.substr(0, at_most),
                       text.substr(at_most + kAtMost.size()));
  }
  return text;
}

// What is wrong with the value of an option; "" if nothing is.
std::string WrongValue(CLI::Option* option) {
  try {
    option->run_callback();
  } catch (const CLI::ConversionError& error) {
    const std::string type = option->get_type_name();
    const char* const wanted = type.starts_with("INT")    ? "a whole number"
                               : type.starts_with("UINT") ? "a whole number from 0"
                                                          : "a number";
    return fmt::format("{}: '{}' is not {}", option->get_name(),
                       option->results()[0].substr(0, kMaxShown), wanted);
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? "" : InOurWords(error.what());
  }
  return "";
}

// All such errors of the chosen commands' options, in their order. Reading a value again changes
// nothing.
std::vector<std::string> WrongValues(CLI::App* app) {
  std::vector<std::string> texts;
  for (CLI::Option* option : app->get_options()) {
    const bool is_flag = option->get_items_expected_max() == 0;
    if (is_flag || option->count() == 0) continue;
    std::string text = WrongValue(option);
    if (!text.empty()) texts.push_back(std::move(text));
  }
  for (CLI::App* chosen : app->get_subcommands()) {
    for (std::string& text : WrongValues(chosen)) texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace

std::string ChosenCommand(const CLI::App& app) {
  std::string command;
  for (const CLI::App* chosen : ChosenApps(app)) {
    command += (command.empty() ? "" : " ") + chosen->get_name();
  }
  return command;
}

std::string UsageErrorText(CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> rest = app.remaining(/*recurse=*/true);
  const std::vector<std::string> unknown = UnknownFlags(app, rest);
  const bool needs_command = error.get_name() == "RequiredError" &&
                             std::string_view(error.what()).find("subcommand") != std::string::npos;
  if (needs_command && !rest.empty()) return NoSuch(app, rest[0]);
  if (needs_command) return CommandList(*ChosenApps(app).back());
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError) && !rest.empty()) {
    if (unknown.empty()) return SuperfluousWord(app, rest[0]);
    return fmt::format("{}", fmt::join(unknown, "\n"));
  }
  // The parser ends at its first error. Others are values that cannot be read, and flags that do
  // not exist.
  std::string first = error.what();
  while (first.ends_with('\n')) first.pop_back();
  first = InOurWords(first);
  std::vector<std::string> texts = WrongValues(&app);
  const bool is_value =
      error.get_name() == "ValidationError" || error.get_name() == "ConversionError";
  if (!is_value) std::erase(texts, first);
  if (!is_value || texts.empty()) texts.insert(texts.begin(), first);
  texts.insert(texts.end(), unknown.begin(), unknown.end());
  return fmt::format("{}", fmt::join(texts, "\n"));
}

std::string UsageErrorLines(CLI::App& app, const CLI::ParseError& error,
                            const std::string& prefix) {
  return fmt::format(
      "{}: {}\n  run `{} --help` for usage\n", prefix.empty() ? app.get_name() : prefix,
      absl::StrReplaceAll(UsageErrorText(app, error), {{"\n", "\n  "}}), ChosenCommand(app));
}

std::function<std::string(const std::string&)> OneOf(std::vector<std::string> words) {
  return [words = std::move(words)](const std::string& value) {
    if (std::find(words.begin(), words.end(), value) != words.end()) return std::string();
    return NotOneOf(value, std::vector<std::string_view>(words.begin(), words.end()));
  };
}

}  // namespace nerf
