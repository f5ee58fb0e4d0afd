#include "engine/program/commands/training_record.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "common/files/atomic_file.h"
#include "common/files/file_io.h"
#include "common/status_macros.h"
#include "engine/base/protocol/key_reader.h"
#include "engine/program/commands/event_file.h"

namespace nerf {
namespace {

constexpr uint64_t kMaxRecordBytes = uint64_t{1} << 30;  // weeks of a report a second

// The numbers of a line as records of TensorBoard.
std::string ScalarRecords(const nlohmann::json& line) {
  std::string records;
  KeyReader reader(line);
  const double time = reader.Number("time", Need::kOptional).value_or(0);
  const uint32_t step = reader.Count("step", Need::kOptional);
  const std::string event = reader.Text("event", Need::kOptional);
  for (const auto& [key, value] : line.items()) {
    if (!value.is_number() || key == "time" || key == "step") continue;
    records += ScalarRecord(time, step, event + "/" + key, value.get<float>());
  }
  return records;
}

absl::Status AppendTo(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::app | std::ios::binary);
  file << bytes << std::flush;
  return file ? absl::OkStatus() : ErrnoToStatus(errno, path);
}

}  // namespace

TrainingRecord::TrainingRecord(const std::string& folder, uint32_t from_step, bool tensorboard,
                               const Clock* clock)
    : path_(folder + "/metrics.jsonl"),
      event_path_(tensorboard ? folder + "/" + kEventFile : ""),
      from_step_(from_step),
      clock_(clock) {}

absl::Status TrainingRecord::Begin() {
  // A training that goes on keeps the record that it has.
  std::error_code ignored;
  const std::string event_path = std::filesystem::path(path_).replace_filename(kEventFile);
  if (from_step_ > 0 && std::filesystem::exists(event_path, ignored)) event_path_ = event_path;
  std::string kept,
      records = EventFileHead(absl::ToDoubleSeconds(clock_->WallNow() - absl::UnixEpoch()));
  const absl::StatusOr<std::string> earlier = ReadFile(path_, kMaxRecordBytes);
  if (from_step_ > 0 && !absl::IsNotFound(earlier.status())) {
    NERF_RETURN_IF_ERROR(earlier.status());
    std::istringstream lines(*earlier);
    for (std::string text; std::getline(lines, text);) {
      const absl::StatusOr<nlohmann::json> line = ParseJsonObject(text);
      if (!line.ok() || KeyReader(*line).Count("step", Need::kOptional) > from_step_) continue;
      kept += text + '\n';
      records += ScalarRecords(*line);
    }
  }
  NERF_RETURN_IF_ERROR(WriteFileAtomically(path_, kept));
  if (!event_path_.empty()) return WriteFileAtomically(event_path_, records);
  std::filesystem::remove(event_path, ignored);
  return absl::OkStatus();
}

absl::Status TrainingRecord::Add(JsonObject line) {
  if (has_failed_) return absl::OkStatus();
  has_failed_ = true;
  if (!has_begun_) NERF_RETURN_IF_ERROR(Begin());
  has_begun_ = true;
  line["time"] = absl::ToDoubleSeconds(clock_->WallNow() - absl::UnixEpoch());
  NERF_RETURN_IF_ERROR(AppendTo(path_, JsonLine(line)));
  if (!event_path_.empty()) NERF_RETURN_IF_ERROR(AppendTo(event_path_, ScalarRecords(line)));
  has_failed_ = false;
  return absl::OkStatus();
}

}  // namespace nerf
