#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/clock.h"
#include "engine/base/protocol/json.h"
#include "engine/program/commands/training_record.h"
#include "engine/program/console/view_progress.h"
#include "engine/program/device/device_monitor.h"
#include "engine/program/session/training_run.h"

namespace nerf {

// Shows a training of the `train` command: progress for people on stderr, or JSON lines on stdout.
// Writes previews, checkpoint and model into a folder, and the curve into the record.
class TrainConsole final : public TrainingRunObserver {
 public:
  // monitor (of the device that trains, may be null), clock and record outlive the console.
  TrainConsole(std::string out, ProgressStyle style, const DeviceMonitor* monitor,
               const Clock* clock, TrainingRecord* record);

  void OnBegin(const TrainingSession&, Trainer* trainer) override { trainer_ = trainer; }
  void OnProgress(const TrainProgress& progress) override;
  absl::Status OnPreview(const TrainPreview& preview) override;
  absl::Status OnCheckpointDue() override;
  void OnWarning(const std::string& text) override { PrintNote("warning: " + text); }
  absl::Status OnStopped() override { return OnCheckpointDue(); }
  void OnEvaluationForecast(const EvaluationForecast& forecast) override;
  absl::Status OnEvaluatedViews(size_t n_done, size_t n_views) override;
  void OnEnd() override;

  // A line on stderr that stays; the progress line of a terminal is cleared first.
  void PrintNote(const std::string& text) const;
  // The training has ended: the last line of the record and, as JSON, of the output.
  void PrintDone(const JsonObject& line);

  const std::string& checkpoint() const { return checkpoint_; }
  const std::string& model() const { return model_; }
  double psnr_train() const { return psnr_train_; }  // of the last report, in dB; 0 before it

 private:
  void PrintJson(const JsonObject& line) const;
  void Record(const JsonObject& line);

  const std::string out_;
  const ProgressStyle style_;
  const DeviceMonitor* const monitor_;
  const Clock* const clock_;
  TrainingRecord* const record_;
  const std::string checkpoint_, model_;
  const Trainer* trainer_ = nullptr;
  double psnr_train_ = 0;
  std::optional<uint32_t> written_step_;     // of checkpoint and model
  std::optional<double> last_line_seconds_;  // training time of the last line
  absl::Duration expected_evaluation_;
  std::optional<ViewProgress> evaluation_;
};

}  // namespace nerf
