#include "client/commands/completion.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "client/calls/resource_ids.h"
#include "client/calls/session.h"
#include "client/commands/command_table.h"
#include "client/flags/access.h"
#include "client/flags/context_file.h"
#include "client/kinds/kind_view.h"
#include "common/messages/path_kind.h"
#include "common/process/exit_code.h"
#include "common/process/server_address.h"
#include "engine/base/messages/export_options.h"
#include "engine/base/method_list/method_descriptions.h"
#include "engine/base/method_list/settings_help.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// The user waits for this at every press of Tab.
constexpr absl::Duration kMaxCompletionWait = absl::Seconds(2);

std::vector<std::string> MethodNames() {
  std::vector<std::string> names;
  for (const MethodDescription* method : MethodDescriptions()) names.emplace_back(method->name());
  return names;
}

// The values of flags and arguments that take one of a few fixed words, by their name or the type
// of their value.
const std::map<std::string, std::vector<std::string>>& WordsOfFlags() {
  static const auto* const kWords = new std::map<std::string, std::vector<std::string>>{
      {"output", {"table", "json", "jsonl", "name"}},
      {"progress", {"auto", "bar", "plain", "json", "none"}},
      {"background", {"auto", "white", "black", "random"}},
      {"method", MethodNames()},
      {"kind", JobKindWords()},
      {"path", {std::begin(kPathKindWords), std::end(kPathKindWords)}},
      {"role", {"viewer", "editor", "worker", "admin"}},
      {"shell", {"bash", "zsh", "fish"}},
      {"channels", {"rgb", "rgba", "rgbaz", "depth", "opacity"}},
      {"format", {"png", "jpeg", "exr"}},
      {"FORMAT", ExportWords("format")},
      {"frame", ExportWords("frame")}};
  return *kWords;
}

// What the words before the last one select.
struct Position {
  std::vector<CLI::App*> path;
  const CLI::Option* flag = nullptr;  // the flag whose value comes next
  size_t n_arguments = 0;             // of the last command
  bool is_lost = false;               // after an unknown command
};

Position Walk(CLI::App& root, const std::vector<std::string>& words) {
  Position position;
  position.path = {&root};
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (position.flag != nullptr) {
      position.flag = nullptr;
    } else if (word.size() > 1 && word[0] == '-') {
      const CLI::Option* flag = FindFlag(position.path, word);
      if (flag != nullptr && TakesValue(*flag)) position.flag = flag;
    } else {
      const auto deeper = position.path.back()->get_subcommands(
          [&](const CLI::App* candidate) { return candidate->get_name() == word; });
      if (deeper.empty()) {
        // After an unknown command nothing can be completed.
        position.is_lost = position.is_lost || !Subcommands(*position.path.back()).empty();
        ++position.n_arguments;
      } else {
        position.path.push_back(deeper[0]);
      }
    }
  }
  return position;
}

void AddIds(ResourceKind kind, const IdLister& list_ids, Completion* completion,
            std::string_view job_kind = "") {
  for (std::string& id : list_ids(kind, job_kind)) {
    completion->candidates.push_back({std::move(id), ""});
  }
}

// The kind of the jobs that a flag or argument takes; empty: any. Only trainings have checkpoints.
std::string_view KindOfJobs(std::string_view name, bool positional) {
  if (name == "pose-job") return PoseKindView().word();
  if (name == "export-job") return ExportKindView().word();
  return positional && name == "job" ? "" : TrainingKindView().word();
}

// The names that --context and the commands about contexts take.
void AddContexts(Completion* completion) {
  const absl::StatusOr<Contexts> contexts = ReadContexts(ContextPath());
  if (!contexts.ok()) return;
  for (const auto& [name, context] : contexts->by_name) {
    completion->candidates.push_back({name, context.server});
  }
}

// The values of a flag or argument.
Completion ValuesOf(const CLI::Option& option, const IdLister& list_ids) {
  Completion completion;
  const bool positional = option.get_lnames().empty();
  const std::string name = positional ? option.get_name(true) : option.get_lnames()[0];
  const std::string type = option.get_type_name();
  const auto& key = WordsOfFlags().contains(type) ? type : name;
  if (const auto words = WordsOfFlags().find(key); words != WordsOfFlags().end()) {
    for (const std::string& word : words->second) completion.candidates.push_back({word, ""});
  }
  if (name == "set") {
    // Settings of all methods, because --method may follow later on the line.
    std::set<std::string_view> seen;
    for (const MethodDescription* method : MethodDescriptions()) {
      for (const SettingHelp& setting : DescribeSettings(*method)) {
        if (!seen.insert(setting.key).second) continue;
        completion.candidates.push_back({std::string(setting.key) + "=", setting.text});
      }
    }
  }
  if (name == "scene" || name == "target") AddIds(ResourceKind::kScene, list_ids, &completion);
  if (name == "model" || type == "MODEL") AddIds(ResourceKind::kModel, list_ids, &completion);
  if (name == "job" || name == "checkpoint" || type == "JOB") {
    AddIds(ResourceKind::kJob, list_ids, &completion, KindOfJobs(name, positional));
  }
  if (name == "worker") AddIds(ResourceKind::kWorker, list_ids, &completion);
  if (name == "context" || (positional && name == "name")) AddContexts(&completion);
  if (type == "FILE") completion.paths = Completion::Paths::kFiles;
  if (type == "DIR" || name == "dir" || name == "target") {
    completion.paths = Completion::Paths::kFolders;
  }
  return completion;
}

Completion FlagsOf(const std::vector<CLI::App*>& path) {
  Completion completion;
  for (const CLI::App* app : path) {
    for (const CLI::Option* option : app->get_options()) {
      if (option->get_lnames().empty() || option->get_group().empty()) continue;
      // --help and the version of the program are not repeated for every level.
      if (option == app->get_help_ptr() && app != path.back()) continue;
      completion.candidates.push_back({"--" + option->get_lnames()[0], option->get_description()});
    }
  }
  return completion;
}

Completion CommandsOrArguments(const Position& position, const IdLister& list_ids) {
  CLI::App& app = *position.path.back();
  Completion completion;
  if (position.is_lost) return completion;
  for (const CLI::App* command : Subcommands(app)) {
    completion.candidates.push_back({command->get_name(), command->get_description()});
  }
  if (!completion.candidates.empty()) return completion;
  size_t n_seen = 0;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    const auto most = static_cast<size_t>(option->get_items_expected_max());
    n_seen += most;
    if (position.n_arguments < n_seen) return ValuesOf(*option, list_ids);
  }
  return completion;
}

// The commands that the words after `help` lead to.
Completion CommandsToExplain(CLI::App& root, const std::vector<std::string>& words) {
  Completion completion;
  for (const CLI::App* command : Subcommands(*ChosenPath(root, words).back())) {
    completion.candidates.push_back({command->get_name(), command->get_description()});
  }
  return completion;
}

std::string OneLine(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\t') c = ' ';
  }
  return text;
}

// The value of a global flag among the words, else of its variable, else `fallback`.
std::string GlobalValue(const std::vector<std::string>& words, const std::string& flag,
                        const char* variable, std::string fallback) {
  const char* set = std::getenv(variable);
  if (set != nullptr && *set != '\0') fallback = set;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == flag && i + 1 < words.size()) fallback = words[i + 1];
    if (words[i].starts_with(flag + "=")) fallback = words[i].substr(flag.size() + 1);
  }
  return fallback;
}

}  // namespace

Completion CompleteWords(CLI::App& root, const std::vector<std::string>& words,
                         const IdLister& list_ids) {
  const Position position = Walk(root, words);
  const std::string& last = words.back();
  Completion completion;
  std::string prefix;  // of the last word, before the value that is completed
  if (position.flag != nullptr) {
    completion = ValuesOf(*position.flag, list_ids);
  } else if (const size_t equals = last.find('=');
             last.starts_with("--") && equals != std::string::npos) {
    const CLI::Option* flag = FindFlag(position.path, last.substr(0, equals));
    if (flag == nullptr || !TakesValue(*flag)) return completion;
    prefix = last.substr(0, equals + 1);
    completion = ValuesOf(*flag, list_ids);
    completion.paths = Completion::Paths::kNone;  // the shell would look for a file "--out=..."
  } else if (last.starts_with("-")) {
    completion = FlagsOf(position.path);
  } else if (position.path.back()->get_name() == "help") {
    const auto help = std::find(words.begin(), words.end(), "help");
    completion = CommandsToExplain(root, {help + 1, words.end() - 1});
  } else {
    completion = CommandsOrArguments(position, list_ids);
  }
  for (Candidate& candidate : completion.candidates) candidate.word = prefix + candidate.word;
  std::erase_if(completion.candidates,
                [&](const Candidate& candidate) { return !candidate.word.starts_with(last); });
  return completion;
}

int RunComplete(CLI::App& root, const std::vector<std::string>& words, const Io& io) {
  GlobalFlags flags;
  flags.server = GlobalValue(words, "--server", "NERFCTL_SERVER", flags.server);
  flags.project = GlobalValue(words, "--project", "NERFCTL_PROJECT", flags.project);
  const GlobalFlags defaults;
  flags.project_is_given = flags.project != defaults.project;
  ApplyContext(flags.server != defaults.server, &flags).IgnoreError();
  flags.timeout = kMaxCompletionWait;
  flags.quiet = true;
  Session session(flags, io);
  const IdLister list_ids = [&](ResourceKind kind,
                                std::string_view job_kind) -> std::vector<std::string> {
    if (!CheckServerAddress(flags.server).ok() || !ProjectName(flags.project).ok()) return {};
    return ListShortIds(session, kind, job_kind);
  };
  const Completion completion =
      CompleteWords(root, words.empty() ? std::vector<std::string>{""} : words, list_ids);
  for (const Candidate& candidate : completion.candidates) {
    *io.out << candidate.word << '\t' << OneLine(candidate.description) << '\n';
  }
  *io.out << (completion.paths == Completion::Paths::kFiles     ? ":files\n"
              : completion.paths == Completion::Paths::kFolders ? ":dirs\n"
                                                                : ":\n");
  return kOk;
}

}  // namespace nerf
