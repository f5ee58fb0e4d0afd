#pragma once

#include <functional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "common/process/exit_code.h"

namespace nerf {

struct Source;

// Runs the chosen subcommand; returns the exit code of the process.
using CommandBody = std::function<int()>;

// Each adds one subcommand to the program; when it is chosen, *chosen becomes its body.
void AddTrainCommand(CLI::App* app, CommandBody* chosen);
void AddEvalCommand(CLI::App* app, CommandBody* chosen);
void AddExplainCommand(CLI::App* app, CommandBody* chosen);
void AddRenderCommand(CLI::App* app, CommandBody* chosen);
void AddExportCommand(CLI::App* app, CommandBody* chosen);
void AddInspectCommand(CLI::App* app, CommandBody* chosen);
void AddMergeCommand(CLI::App* app, CommandBody* chosen);
void AddImportCommand(CLI::App* app, CommandBody* chosen);
void AddCheckCommand(CLI::App* app, CommandBody* chosen);
void AddPoseCommand(CLI::App* app, CommandBody* chosen);
void AddBenchCommand(CLI::App* app, CommandBody* chosen);
void AddAblateCommand(CLI::App* app, CommandBody* chosen);
void AddMetaCommand(CLI::App* app, CommandBody* chosen);
void AddDoctorCommand(CLI::App* app, CommandBody* chosen);
void AddServeCommand(CLI::App* app, CommandBody* chosen);
void AddHelpCommand(CLI::App* app, CommandBody* chosen);
// All of them, of which one must be chosen.
void AddAllCommands(CLI::App* app, CommandBody* chosen);

// Adds an option for a number above 0 as ParseAmount reads it, or for a time as ParseTimeSpan does,
// in seconds.
CLI::Option* AddAmountOption(CLI::App* command, const std::string& flag, const std::string& help,
                             double* amount);
CLI::Option* AddTimeOption(CLI::App* command, const std::string& flag, const std::string& help,
                           double* seconds);

// Names the next command on stderr. For photographs and films: the one that finds their poses, or
// that trains with those that were found before. For a folder that does not exist, and misspells
// none: the one that makes a data set.
void SuggestPosing(const Source& source);

// Number of threads for a --threads of `flag`; 0 means one for each usable core.
int ThreadsFor(int flag);

// Prints the error on stderr, and with `json` as {"event":"failed",...} on stdout; returns the exit
// code for it. A wrong flag (`usage`) or a feature that is not built is 2, a training that failed
// is 3.
int ReportError(const absl::Status& status, bool json, bool usage = false);

// --poses and --apply-exif.
struct ReadingFlags {
  std::string poses;  // empty: the default
  bool apply_exif = false;
};
std::vector<CLI::Option*> AddReadingOptions(CLI::App* command, ReadingFlags* flags);

}  // namespace nerf
