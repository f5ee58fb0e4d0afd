#include "engine/program/console/command.h"

#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/time/time.h"
#include "common/amount.h"
#include "common/error_reason.h"
#include "common/files/nearest_path.h"
#include "common/process/control_groups.h"
#include "common/shell_word.h"
#include "engine/base/protocol/failed_line.h"
#include "engine/scene/read/scene_reader.h"
#include "engine/scene/read/source.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr size_t kMaxShownValue = 64;  // bytes of a flag's value

}  // namespace

int ThreadsFor(int flag) { return flag > 0 ? flag : UsableCores(); }

CLI::Option* AddAmountOption(CLI::App* command, const std::string& flag, const std::string& help,
                             double* amount) {
  const auto read = [=](const std::string& text) {
    *amount = ParseAmount(text).value_or(0);
    if (*amount > 0) return;
    throw CLI::ValidationError(flag,
                               fmt::format("'{}' is not a number above 0, such as 20000 or 40M",
                                           text.substr(0, kMaxShownValue)));
  };
  return command->add_option_function<std::string>(flag, read, help)->type_name("NUMBER");
}

CLI::Option* AddTimeOption(CLI::App* command, const std::string& flag, const std::string& help,
                           double* seconds) {
  const auto read = [=](const std::string& text) {
    const std::optional<absl::Duration> span = ParseTimeSpan(text);
    if (!span.has_value()) {
      throw CLI::ValidationError(flag,
                                 fmt::format("'{}' is not a time above 0, such as 90, 90s or 5m",
                                             text.substr(0, kMaxShownValue)));
    }
    *seconds = absl::ToDoubleSeconds(*span);
  };
  return command->add_option_function<std::string>(flag, read, help)->type_name("TIME");
}

void SuggestPosing(const Source& source) {
  if (source.kind == Source::Kind::kMissing) {
    if (!NearestPath(source.path).empty()) return;
    fmt::print(stderr,
               "next: nerf-engine pose PHOTOS --out DIR   (makes a data set of photographs)\n");
    return;
  }
  if (!source.HasNoPoses()) return;
  std::fflush(stdout);  // the report comes first
  const std::string photos = ShellWord(source.path), posed = ShellWord(source.posed);
  if (source.MustBePosed()) {
    fmt::print(stderr,
               "next: nerf-engine pose {} --out {}   (finds where the photographs were taken)\n",
               photos, posed);
    return;
  }
  fmt::print(stderr, "next: nerf-engine train {} --out {}   (their poses were found before)\n",
             posed, ShellWord(source.posed + "-model"));
  if (const std::string added = AddedPhotographsText(source); !added.empty()) {
    fmt::print(stderr,
               "warning: {}\n  {} && nerf-engine pose {} --out {} finds the poses of all of them\n",
               added, SetPosedFolderAside(source), photos, posed);
  }
}

int ReportError(const absl::Status& status, bool json, bool usage) {
  fmt::print(stderr, "error: {}\n", std::string(status.message()));
  if (json) fmt::print("{}", protocol::FailedLine(status));
  if (usage || status.code() == absl::StatusCode::kUnimplemented) return kUsage;
  if (status.code() == absl::StatusCode::kAborted) return kJobFailed;
  // A full disk: another try without room is none.
  const std::optional<ErrorReason> why = GetReason(status);
  if (why.has_value() && why->reason == reason::kStoreReadOnly) return kExhausted;
  return ExitCodeFor(status.code());
}

std::vector<CLI::Option*> AddReadingOptions(CLI::App* command, ReadingFlags* flags) {
  auto* poses =
      command
          ->add_option("--poses", flags->poses,
                       "what a transforms file's matrices are: opengl (default) or opencv (camera "
                       "to world, axes of that program), w2c (world to camera)")
          ->check(CLI::IsMember({"opengl", "opencv", "w2c"}));
  auto* apply_exif = command->add_flag("--apply-exif", flags->apply_exif,
                                       "turn photographs upright by their EXIF orientation");
  return {poses, apply_exif};
}

}  // namespace nerf
