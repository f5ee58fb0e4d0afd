#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace nerf {

// How help, completion and man pages read the tree of commands.

// The apps that the words of a command line lead through, the root first. Flags and their values
// are skipped.
std::vector<CLI::App*> ChosenPath(CLI::App& root, const std::vector<std::string>& words);

// The flag that `word` names in one of the apps; null for none.
const CLI::Option* FindFlag(const std::vector<CLI::App*>& path, const std::string& word);

// True for a flag that a value follows.
bool TakesValue(const CLI::Option& option);

// The subcommands in the order of their definition, without hidden ones.
std::vector<CLI::App*> Subcommands(CLI::App& app);

// The commands and flags that may stand after `path`.
std::vector<std::string> WordsAfter(const std::vector<CLI::App*>& path);

// The help text of the last app of the path.
std::string HelpText(const std::vector<CLI::App*>& path);

}  // namespace nerf
