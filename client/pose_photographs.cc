#include "client/pose_photographs.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "absl/strings/ascii.h"
#include "client/session.h"
#include "client/text_format.h"
#include "common/child_process.h"
#include "common/exit_code.h"
#include "common/shell_word.h"
#include "engine/scene/scene_reader.h"
#include "fmt/format.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

bool HasPhotographs(const std::string& folder) {
  constexpr std::array<std::string_view, 8> kEndings = {".jpg", ".jpeg", ".png", ".mp4",
                                                        ".mov", ".m4v",  ".avi", ".mkv"};
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string ending = absl::AsciiStrToLower(it->path().extension().string());
    if (std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end()) return true;
  }
  return false;
}

// "photos-posed" for "photos", "photos/" and "." within it.
std::string PosedFolder(const std::string& folder) {
  std::error_code error;
  const fs::path canonical = fs::canonical(folder, error);
  const bool has_name = !error && fs::path(folder).filename() == canonical.filename();
  std::string path = has_name || error ? folder : canonical.string();
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path + "-posed";
}

}  // namespace

PoseOutcome FolderWithPoses(Session& session, const std::string& folder,
                            const std::string& engine) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored) || HasSceneFiles(folder) || !HasPhotographs(folder)) {
    return {kOk, folder};
  }
  const std::string posed = PosedFolder(folder);
  if (HasSceneFiles(posed)) {
    session.Say(PlainText(
        fmt::format("{} has no poses; using {}, where they were found before", folder, posed)));
    return {kOk, posed};
  }
  ChildProcessSpec spec;
  spec.arguments = {engine, "pose", folder, "--out", posed};
  session.Say(
      PlainText(fmt::format("{} has no poses. Finding them takes minutes: nerf-engine pose "
                            "{} --out {}",
                            folder, ShellWord(folder), ShellWord(posed))));
  const auto end = RunChildProcess(
      spec,
      [&](std::string_view line) {
        // The program's own next step is what comes anyway.
        if (line.find("Next: ") == std::string_view::npos)
          session.Say(PlainText(std::string(line)));
      },
      nullptr, session.stop());
  if (!end.ok()) return {session.Fail(end.status()), ""};
  switch (end->kind) {
    case ChildProcessEnd::Kind::kExited:
      if (end->code == kOk) return {kOk, posed};
      session.SayError("nerfctl: no poses were found, so nothing was trained");
      return {end->code, ""};
    case ChildProcessEnd::Kind::kStopped:
      return {session.Fail(absl::CancelledError("interrupted")), ""};
    case ChildProcessEnd::Kind::kSignaled:
    case ChildProcessEnd::Kind::kTimeLimit:
      break;
  }
  session.SayError(fmt::format("nerfctl: {} was killed by signal {}", engine, end->code));
  return {kBug, ""};
}

}  // namespace nerf
