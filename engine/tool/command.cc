#include "engine/tool/command.h"

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "common/control_groups.h"
#include "common/nearest_path.h"
#include "common/shell_word.h"
#include "engine/protocol/json.h"
#include "engine/scene/scene_reader.h"
#include "engine/scene/unposed_photographs.h"
#include "engine/tool/protocol_convert.h"
#include "fmt/format.h"

namespace nerf {

int ThreadsFor(int flag) { return flag > 0 ? flag : UsableCores(); }

void SuggestPosing(const std::string& folder) {
  std::error_code ignored;
  if (!std::filesystem::exists(folder, ignored)) {
    if (!NearestPath(folder).empty()) return;
    fmt::print(stderr,
               "next: nerf-engine pose PHOTOS --out DIR   (makes a data set of photographs)\n");
    return;
  }
  if (!IsUnposed(folder)) return;
  std::fflush(stdout);  // the report comes first
  const std::string posed = PosedFolder(folder);
  if (HasSceneFiles(posed)) {
    fmt::print(stderr, "next: nerf-engine train {} --out {}   (their poses were found before)\n",
               ShellWord(posed), ShellWord(posed + "-model"));
    return;
  }
  fmt::print(stderr,
             "next: nerf-engine pose {} --out {}   (finds where the photographs were taken)\n",
             ShellWord(folder), ShellWord(posed));
}

int ReportError(const absl::Status& status, bool json, bool usage) {
  fmt::print(stderr, "error: {}\n", std::string(status.message()));
  if (json) {
    JsonObject line;
    line["event"] = "failed";
    const protocol::Error error = ToProtocol(status);
    line["code"] = absl::StatusCodeToString(error.code);
    line["reason"] = error.reason;
    line["message"] = error.message;
    fmt::print("{}", JsonLine(line));
  }
  if (usage || status.code() == absl::StatusCode::kUnimplemented) return kUsage;
  if (status.code() == absl::StatusCode::kAborted) return kJobFailed;
  return ExitCodeFor(status.code());
}

}  // namespace nerf
