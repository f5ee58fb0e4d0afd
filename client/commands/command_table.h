#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace nerf {

// Access to the tree of commands, for help, completion and man pages.

// The commands that the words of a command line select, from the root down. Flags and their values
// are skipped.
std::vector<CLI::App*> ChosenPath(CLI::App& root, const std::vector<std::string>& words);

// The flag named `word` of one of the apps; null if there is none.
const CLI::Option* FindFlag(const std::vector<CLI::App*>& path, const std::string& word);

// True for a flag that a value follows.
bool TakesValue(const CLI::Option& option);

// The subcommands in the order of their definition, without hidden ones.
std::vector<CLI::App*> Subcommands(CLI::App& app);

// The help text of the last app of the path.
std::string HelpText(const std::vector<CLI::App*>& path);

}  // namespace nerf
