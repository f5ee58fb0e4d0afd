#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/scene/scene_reader.h"
#include "engine/tool/json_lines.h"
#include "engine/tool/training_session.h"
#include "engine/tool/view_writer.h"
#include "nlohmann/json.hpp"

namespace nerf {

// The requests of docs/engine.md, typed. Every key is checked for type and range; unknown keys are
// ignored. Errors: InvalidArgument FIELD_INVALID that lists every wrong key.

struct TrainMessage {
  std::string job, out;
  TrainRequest request;
  absl::Duration checkpoint_interval, preview_interval;
};
absl::StatusOr<TrainMessage> ReadTrainMessage(const nlohmann::json& message);

struct StopMessage {
  std::string job;
  bool checkpoint = false;
};
absl::StatusOr<StopMessage> ReadStopMessage(const nlohmann::json& message);

struct RenderMessage {
  std::string id;
  std::string file, job;  // exactly one is set
  std::string camera;     // JSON text; empty for an orbit
  int orbit_index = 0, orbit_count = 0;
  int width = 0, height = 0;
  ViewChannels channels;
  bool jpeg = false;
  std::string out;
};
absl::StatusOr<RenderMessage> ReadRenderMessage(const nlohmann::json& message);

struct CheckMessage {
  std::string id, dataset;
};
absl::StatusOr<CheckMessage> ReadCheckMessage(const nlohmann::json& message);

// The string at a key; empty where there is none.
std::string TextOf(const nlohmann::json& message, const char* key);

// {"type": type, key: value} to go on with.
JsonObject Reply(const char* type, const char* key, const std::string& value);
// "error" for a request with this `id` or `job`, where known.
JsonObject ErrorReply(const std::string& id, const std::string& job, const absl::Status& status);
// "failed", with as many problems as a line holds.
JsonObject FailedReply(const std::string& job, const absl::Status& status,
                       const std::vector<SceneProblem>& problems);
// "checked".
JsonObject CheckedReply(const std::string& id, const SceneDescription& description);
// The "config" of "started".
JsonObject ConfigObject(const TrainConfig& config);

}  // namespace nerf
