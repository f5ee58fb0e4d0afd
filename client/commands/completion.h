#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "client/flags/io.h"
#include "client/flags/names.h"

namespace CLI {
class App;
}

namespace nerf {

// The hidden command that shells call: `nerfctl __complete WORD... LAST` prints completions of
// LAST.
inline constexpr char kCompleteWord[] = "__complete";

struct Candidate {
  std::string word;
  std::string description;
};

struct Completion {
  enum class Paths { kNone, kFiles, kFolders };
  std::vector<Candidate> candidates;
  Paths paths = Paths::kNone;  // what the shell adds from the file system
};

// The short ids of the resources of a kind, of jobs as ListShortIds takes it, newest first; empty
// if the server does not answer.
using IdLister = std::function<std::vector<std::string>(ResourceKind, std::string_view job_kind)>;

// Completions of the last of `words`: commands, flags, values of flags, settings of --set, resource
// names. Requires: at least one word.
Completion CompleteWords(CLI::App& root, const std::vector<std::string>& words,
                         const IdLister& list_ids);

// Runs __complete: one candidate a line, a tab and its description; then a last line ":", ":files"
// or ":dirs". Returns the exit code.
int RunComplete(CLI::App& root, const std::vector<std::string>& words, const Io& io);

// The script that a shell (bash, zsh, fish) loads; "" for any other.
std::string CompletionScript(const std::string& shell);

}  // namespace nerf
