#include "engine/tool/command.h"

#include <cstdio>

#include "common/control_groups.h"
#include "engine/tool/json_lines.h"
#include "fmt/format.h"

namespace nerf {

int ThreadsFor(int flag) { return flag > 0 ? flag : UsableCores(); }

int ReportError(const absl::Status& status, bool json, bool usage) {
  const std::string reason = ReasonOf(status);
  fmt::print(stderr, "error: {}\n", std::string(status.message()));
  if (json) {
    JsonObject line;
    line["event"] = "failed";
    line["code"] = CodeName(status.code());
    line["reason"] = reason;
    line["message"] = std::string(status.message());
    fmt::print("{}", JsonLine(line));
  }
  if (usage || status.code() == absl::StatusCode::kUnimplemented) return kUsage;
  if (status.code() == absl::StatusCode::kAborted) return kJobFailed;
  return ExitCodeFor(status.code());
}

}  // namespace nerf
