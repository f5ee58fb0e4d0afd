#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nerf/v1/common.pb.h"
#include "nerf/v1/model_service.pb.h"
#include "nerf/v1/render_service.pb.h"
#include "nerf/v1/training_service.pb.h"
#include "nerf/v1/worker_service.pb.h"

namespace nerf {

// The messages of `nerf-engine serve` (docs/engine.md), typed. What comes from the engine is
// checked here: types, ranges, finite numbers; paths are checked where they are used.

// Longest line either way, in bytes.
inline constexpr size_t kMaxEngineLineBytes = size_t{1} << 20;

struct EngineHello {
  std::string version, device, description;
  uint32_t threads = 0;
  std::vector<std::string> methods;  // of training that it has on the device; empty: not told
};
struct EngineStarted {
  std::string job;
  v1::TrainingConfig config;  // init is not set
  std::string flavor;
  uint32_t train_views = 0, test_views = 0;
  std::vector<std::string> warnings;
  uint32_t step = 0;
};
struct EngineProgress {
  std::string job;
  v1::Progress progress;       // the preview's fields are not set
  v1::WorkerMetrics readings;  // stall_fraction and those of the GPU, no counts
};
struct EnginePreview {
  std::string job;
  uint32_t step = 0;
  std::optional<double> psnr;
  std::string image;  // path
};
struct EngineCheckpoint {
  std::string job;
  uint32_t step = 0;
  std::string checkpoint, model;  // paths
  std::vector<v1::TensorSpec> tensors;
  std::optional<double> psnr;
};
struct EngineStopped {
  std::string job;
  uint32_t step = 0;
};
struct EngineDone {
  std::string job;
  v1::Progress progress;
  std::optional<double> psnr;
};
struct EngineFailed {
  std::string job;
  absl::StatusCode code = absl::StatusCode::kUnknown;
  std::string reason, message;
  std::vector<v1::SceneProblem> problems;
};
struct EngineWorking {  // a request is at work
  std::string id;
};
struct EngineRendered {
  std::string id;
  std::map<std::string, std::string> files;  // channel to path
  uint32_t width = 0, height = 0, step = 0;
  double far = 0, seconds = 0;
};
struct EngineChecked {
  std::string id;
  bool ok = false;
  std::string summary;
  std::vector<v1::SceneProblem> problems;
  std::vector<std::string> warnings;
};
struct EngineError {
  std::string id, job;  // empty where not known
  absl::StatusCode code = absl::StatusCode::kUnknown;
  std::string reason, message;
};

using EngineMessage = std::variant<EngineHello, EngineStarted, EngineProgress, EnginePreview,
                                   EngineCheckpoint, EngineStopped, EngineDone, EngineFailed,
                                   EngineWorking, EngineRendered, EngineChecked, EngineError>;

// Reads one line. Errors: InvalidArgument that names the key: no JSON object, a missing key, a
// value of the wrong type or range; Unimplemented for an unknown type.
absl::StatusOr<EngineMessage> ParseEngineMessage(std::string_view line);

// `train`.
struct TrainCommand {
  std::string job, dataset, out;
  v1::TrainingConfig config;
  std::string resume, init;  // paths; empty: none
  double checkpoint_interval_seconds = 30, preview_interval_seconds = 10;
};
// `render`: `file` or `job`; `view` has camera or orbit, size, channels and format.
struct RenderCommand {
  std::string id, file, job, out;
  v1::RenderImageRequest view;
};

// Each returns one line with its newline. Text that is not UTF-8 has its bad bytes replaced.
std::string TrainLine(const TrainCommand& command);
std::string StopLine(const std::string& job, bool checkpoint);
std::string RenderLine(const RenderCommand& command);
std::string CheckLine(const std::string& id, const std::string& dataset);
std::string CancelLine(const std::string& id);

// "rgb", "depth" or "opacity"; an unstated channel is rgb.
std::string_view ChannelName(v1::RenderChannel channel);

}  // namespace nerf
