#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include "nlohmann/json_fwd.hpp"

namespace nerf {

class KeyReader;
using JsonObject = nlohmann::ordered_json;  // engine/base/protocol/json.h

// A figure that was not measured.
inline constexpr double kUnknownFigure = std::numeric_limits<double>::quiet_NaN();

// Where a training stands. The trainer measures it, the engine sends it, the worker passes it on.
// To add a figure: a member here, its row in progress.cc, and the line that measures it. Whatever
// has a field of the same name in nerf.v1.Progress arrives there; other figures arrive in its map
// `figures`.
struct TrainProgress {
  uint32_t step = 0;  // finished steps
  // Totals up to this step, over all attempts.
  double samples = 0;  // trained samples
  double marched = 0;  // samples whose density was evaluated
  double rays = 0;
  // Over the steps since the last report.
  double loss = kUnknownFigure;        // mean
  double psnr_train = kUnknownFigure;  // dB, of the mean squared error
  double samples_per_second = 0;       // trained samples
  double rays_per_second = 0;
  double stall_fraction = kUnknownFigure;  // share of the time spent waiting for the batch
  double seconds = 0;      // training time, without evaluation, previews and file output
  double fraction = 0;     // of the budget, in [0, 1]
  double eta_seconds = 0;  // training time that is left, at the rate of this run
  // Of the evaluation at the end.
  double evaluated_views = kUnknownFigure;
  double evaluation_views = kUnknownFigure;
  // Of the occupancy grid's cells. Unknown without a grid, and while all of its cells are occupied.
  double occupied_share = kUnknownFigure;
  // Pixels of the largest training picture in its file, of the same as it is trained on, and of the
  // largest test view.
  double picture_width = kUnknownFigure, picture_height = kUnknownFigure;
  double trained_width = kUnknownFigure, trained_height = kUnknownFigure;
  double evaluated_width = kUnknownFigure, evaluated_height = kUnknownFigure;
  // Of the CUDA device, from its driver.
  double gpu_utilization = kUnknownFigure;        // share of the last second with a kernel running
  double gpu_memory_used_bytes = kUnknownFigure;  // by all processes
  double gpu_memory_size_bytes = kUnknownFigure;
  double gpu_temperature_celsius = kUnknownFigure;
  double gpu_power_watts = kUnknownFigure;
};

// One figure of TrainProgress besides the step.
struct ProgressFigure {
  enum class Presence {
    kAlways,   // null while unknown
    kIfKnown,  // the key is left out while unknown
  };
  enum class Owner {
    kJob,     // nerf.v1.Progress: stored with the job and shown by clients
    kWorker,  // nerf.v1.WorkerMetrics: last value, shown as a metric of the worker
  };
  const char* name;  // JSON key, and field of the owner's proto message
  double TrainProgress::*value;
  Presence presence = Presence::kAlways;
  bool is_count = false;  // written without a fraction
  Owner owner = Owner::kJob;
};

// All of them, in the order of the progress line.
std::span<const ProgressFigure> ProgressFigures();

// Sets "step" and the figures on *object.
void SetProgress(const TrainProgress& progress, JsonObject* object);

// Only "step" is required; figures that are absent or null are unknown.
TrainProgress ReadProgress(KeyReader* reader);

// What a training that has ended comes to.
struct TrainSummary {
  uint32_t step = 0;
  double samples = 0, marched = 0, rays = 0;  // totals, as in TrainProgress
  double seconds = 0;
  double samples_per_second = 0;  // of this run
  double stall_fraction = 0;      // of this run: share of the time spent waiting for batches
  double peak_rss_bytes = 0;      // most memory of the process
  // dB over all test views. NaN if there are none; unset if nothing was evaluated.
  std::optional<double> psnr;
  std::optional<double> ssim, lpips;  // the same, where they are asked for
  std::string checkpoint, model;      // files
};
void SetSummary(const TrainSummary& summary, JsonObject* object);
// Only "step" is required. A psnr of null reads as unset.
TrainSummary ReadSummary(KeyReader* reader);

}  // namespace nerf
