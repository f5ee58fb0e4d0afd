#include "client/calls/pose_photographs.h"

#include <string_view>
#include <utility>
#include <vector>

#include "client/calls/session.h"
#include "client/flags/interrupt.h"
#include "client/flags/text_format.h"
#include "common/child_process.h"
#include "common/exit_code.h"
#include "common/shell_word.h"
#include "engine/scene/scene_reader.h"
#include "engine/scene/unposed_photographs.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// For nerf-engine to end COLMAP and to remove its files.
constexpr absl::Duration kStopGrace = absl::Seconds(10);

// Warns of photographs that came after the poses were found.
void SayAdded(const Session& session, const std::string& folder) {
  const std::string added = AddedPhotographsText(folder);
  if (added.empty()) return;
  session.Say(PlainText("warning: " + added));
  session.Say(PlainText(fmt::format("  {} && {} finds the poses of all of them",
                                    SetPosedFolderAside(folder),
                                    session.Runnable("nerfctl train " + ShellWord(folder)))));
}

// Runs the command line of nerf-engine's `pose` and prints its lines. Returns the exit code, after
// printing `failure` where it has failed by itself.
int RunPose(Session& session, std::vector<std::string> arguments, const std::string& failure) {
  ChildProcessSpec spec;
  spec.arguments = std::move(arguments);
  spec.time_limit = session.TimeLeft();
  spec.stop_grace = kStopGrace;
  const Interrupt::PatientScope until_it_has_cleaned_up;
  const auto end = RunChildProcess(
      spec,
      [&](std::string_view line) {
        // The next step that it suggests is what nerfctl does anyway. After a stop nerfctl says the
        // rest.
        const bool is_stopping =
            session.stop().stop_requested() || session.TimeLeft() <= absl::ZeroDuration();
        if (line.starts_with("next: ") || is_stopping) return;
        session.Say(PlainText(std::string(line)));
      },
      nullptr, session.stop());
  if (!end.ok()) return session.Fail(end.status());
  switch (end->kind) {
    case ChildProcessEnd::Kind::kExited:
      if (end->code != kOk) session.SayError("nerfctl: " + failure);
      return end->code;
    case ChildProcessEnd::Kind::kStopped:
      return session.Fail(absl::CancelledError("interrupted"));
    case ChildProcessEnd::Kind::kTimeLimit:
      return session.Fail(session.TimeIsOver("before the poses were found"));
    case ChildProcessEnd::Kind::kSignaled:
      break;
  }
  session.SayError(
      fmt::format("nerfctl: {} was killed by signal {}", spec.arguments[0], end->code));
  return kBug;
}

}  // namespace

bool MustBePosed(const std::string& folder) {
  return IsUnposed(folder) && DatasetOf(folder) == folder;
}

PoseOutcome FolderWithPoses(Session& session, const std::string& folder,
                            const std::string& engine) {
  if (!IsUnposed(folder)) return {kOk, folder};
  const std::string posed = PosedFolder(folder);
  if (!MustBePosed(folder)) {
    session.Say(PlainText(
        fmt::format("{} has no poses; using {}, where they were found before", folder, posed)));
    SayAdded(session, folder);
    return {kOk, posed};
  }
  session.Say(
      PlainText(fmt::format("{} has no poses. Finding them takes minutes: nerf-engine pose "
                            "{} --out {}",
                            folder, ShellWord(folder), ShellWord(posed))));
  return {RunPose(session, {engine, "pose", folder, "--out", posed},
                  "no poses were found, so nothing was trained"),
          posed};
}

int CheckPosing(Session& session, const std::string& folder, const std::string& engine) {
  return RunPose(session, {engine, "pose", folder, "--out", PosedFolder(folder), "--validate-only"},
                 "poses cannot be found, so nothing can be trained");
}

}  // namespace nerf
