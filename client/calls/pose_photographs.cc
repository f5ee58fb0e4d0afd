#include "client/calls/pose_photographs.h"

#include <string_view>
#include <utility>
#include <vector>

#include "client/calls/local_engine.h"
#include "client/calls/session.h"
#include "client/flags/text_format.h"
#include "common/process/exit_code.h"
#include "common/shell_word.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// Warns of photographs that came after the poses were found.
void SayAdded(const Session& session, const Source& source) {
  const std::string added = AddedPhotographsText(source);
  if (added.empty()) return;
  session.Say(PlainText("warning: " + added));
  session.Say(PlainText(fmt::format("  {} && {} finds the poses of all of them",
                                    SetPosedFolderAside(source),
                                    session.Runnable("nerfctl train " + ShellWord(source.path)))));
}

// Runs the command line of nerf-engine's `pose` and prints its lines, but for the next step that it
// suggests: nerfctl takes it anyway.
int RunPose(Session& session, std::vector<std::string> arguments, const std::string& failure) {
  return RunLocalEngine(
      session, {.arguments = std::move(arguments),
                .failure = failure,
                .unfinished = "before the poses were found",
                .is_shown = [](std::string_view line) { return !line.starts_with("next: "); }});
}

std::vector<std::string> PoseWords(const std::string& engine, const Source& source,
                                   const PhotographFlags& flags) {
  std::vector<std::string> words = {engine, "pose", source.path, "--out", source.posed};
  const std::vector<std::string> options = EngineWords(flags);
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

}  // namespace

PoseOutcome FolderWithPoses(Session& session, const Source& source, const std::string& engine,
                            const PhotographFlags& flags) {
  if (!source.HasNoPoses()) return {kOk, source.path};
  if (source.was_posed) {
    session.Say(PlainText(fmt::format("{} has no poses; using {}, where they were found before",
                                      source.path, source.posed)));
    SayAdded(session, source);
    return {kOk, source.posed};
  }
  std::string options;
  for (const std::string& word : EngineWords(flags)) options += " " + word;
  session.Say(PlainText(
      fmt::format("{} has no poses. Finding them takes minutes: nerf-engine pose {} --out {}{}",
                  source.path, ShellWord(source.path), ShellWord(source.posed), options)));
  return {RunPose(session, PoseWords(engine, source, flags),
                  "no poses were found, so nothing was trained"),
          source.posed};
}

int CheckPosing(Session& session, const Source& source, const std::string& engine,
                const PhotographFlags& flags) {
  std::vector<std::string> words = PoseWords(engine, source, flags);
  words.push_back("--validate-only");
  return RunPose(session, std::move(words), "poses cannot be found, so nothing can be trained");
}

}  // namespace nerf
