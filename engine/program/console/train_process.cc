#include "engine/program/console/train_process.h"

#include <optional>
#include <string_view>

#include "common/process/child_process.h"
#include "common/status_macros.h"
#include "engine/base/protocol/json.h"
#include "engine/base/protocol/key_reader.h"

namespace nerf {
namespace {

constexpr char kTrainProgram[] = "/proc/self/exe";

}  // namespace

absl::StatusOr<TrainSummary> TrainInProcess(
    const std::vector<std::string>& arguments,
    const std::vector<std::pair<std::string, std::string>>& environment,
    const std::function<void(const nlohmann::json&)>& on_line, const std::stop_token& stop) {
  ChildProcessSpec spec;
  spec.arguments = {kTrainProgram, "--log-level", "warning", "train"};
  spec.arguments.insert(spec.arguments.end(), arguments.begin(), arguments.end());
  spec.arguments.emplace_back("--json");
  spec.environment = environment;
  std::optional<TrainSummary> summary;
  std::string last_words;
  const auto read_line = [&](std::string_view line) {
    const absl::StatusOr<nlohmann::json> object = ParseJsonObject(line);
    if (!object.ok()) {
      if (!line.starts_with("warning: ")) last_words = line;
      return;
    }
    KeyReader reader(*object);
    const std::string event = reader.Text("event", Need::kOptional);
    if (event == "done") summary = ReadSummary(&reader);
    if (event == "failed") last_words = reader.Text("message", Need::kOptional);
    if (on_line) on_line(*object);
  };
  NERF_ASSIGN_OR_RETURN(const ChildProcessEnd end, RunChildProcess(
                                                       spec, read_line, [] {}, stop));
  if (end.kind == ChildProcessEnd::Kind::kStopped) return absl::CancelledError("interrupted");
  if (!end.ok() || !summary.has_value()) {
    return absl::AbortedError(last_words.empty() ? std::string("the process was killed")
                                                 : last_words);
  }
  return *summary;
}

}  // namespace nerf
