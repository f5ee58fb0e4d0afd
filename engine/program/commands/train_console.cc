#include "engine/program/commands/train_console.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "common/status_macros.h"
#include "engine/base/config/slow_views.h"
#include "engine/scene/pictures/image_io.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// A terminal's line is redrawn with every report, once a second; a log gets fewer lines.
constexpr double kLogIntervalSeconds = 5;

}  // namespace

TrainConsole::TrainConsole(std::string out, ProgressStyle style, const DeviceMonitor* monitor,
                           const Clock* clock, TrainingRecord* record)
    : out_(std::move(out)),
      style_(style),
      monitor_(monitor),
      clock_(clock),
      record_(record),
      checkpoint_(out_ + "/checkpoint.safetensors"),
      model_(out_ + "/model.safetensors") {}

void TrainConsole::OnProgress(const TrainProgress& progress) {
  psnr_train_ = progress.psnr_train;
  TrainProgress with_device = progress;
  if (monitor_ != nullptr) monitor_->Read(&with_device);
  JsonObject line;
  line["event"] = "progress";
  SetProgress(with_device, &line);
  Record(line);
  if (style_ == ProgressStyle::kJson) {
    PrintJson(line);
    return;
  }
  const bool terminal = style_ == ProgressStyle::kTerminal;
  if (!terminal && last_line_seconds_.has_value() &&
      progress.seconds - *last_line_seconds_ < kLogIntervalSeconds) {
    return;
  }
  last_line_seconds_ = progress.seconds;
  fmt::print(stderr, "{}{}{}", terminal ? "\r" : "", TrainingText(progress),
             terminal ? "\x1b[K" : "\n");
}

absl::Status TrainConsole::OnPreview(const TrainPreview& preview) {
  const std::string path = fmt::format("{}/preview_{:06}.png", out_, preview.step);
  NERF_RETURN_IF_ERROR(WritePng(path, preview.image));
  JsonObject line;
  line["event"] = "preview";
  line["step"] = preview.step;
  line["psnr"] = JsonNumber(preview.psnr);
  line["image"] = path;
  Record(line);
  if (style_ == ProgressStyle::kJson) {
    PrintJson(line);
  } else {
    PrintNote(fmt::format("preview {:.2f} dB  {}", preview.psnr, path));
  }
  return absl::OkStatus();
}

absl::Status TrainConsole::OnCheckpointDue() {
  const uint32_t step = trainer_->state().step;
  if (written_step_ == step) return absl::OkStatus();
  NERF_RETURN_IF_ERROR(WriteTrainingFiles(*trainer_, checkpoint_, model_));
  written_step_ = step;
  if (style_ == ProgressStyle::kJson) {
    JsonObject line;
    line["event"] = "checkpoint";
    line["step"] = step;
    line["checkpoint"] = checkpoint_;
    line["model"] = model_;
    PrintJson(line);
  } else {
    PrintNote(fmt::format("wrote {} and {} at step {}", checkpoint_, model_, step));
  }
  return absl::OkStatus();
}

void TrainConsole::OnEvaluationForecast(const EvaluationForecast& forecast) {
  expected_evaluation_ = forecast.expected;
  const std::string slowness = SlowViewsReason(forecast.expected, forecast.occupied_share);
  if (style_ != ProgressStyle::kJson && !slowness.empty()) PrintNote(slowness);
}

absl::Status TrainConsole::OnEvaluatedViews(size_t n_done, size_t n_views) {
  if (n_done == 0) {
    evaluation_.emplace("evaluating", clock_, style_, n_views, ConsoleStream(style_),
                        expected_evaluation_);
  } else {
    evaluation_->Add();
  }
  return absl::OkStatus();
}

void TrainConsole::OnEnd() {
  trainer_ = nullptr;
  evaluation_.reset();
}

void TrainConsole::PrintNote(const std::string& text) const {
  const bool terminal = style_ == ProgressStyle::kTerminal;
  fmt::print(stderr, "{}{}\n", terminal ? "\r\x1b[K" : "", text);
}

void TrainConsole::PrintDone(const JsonObject& line) {
  Record(line);
  if (style_ == ProgressStyle::kJson) PrintJson(line);
}

void TrainConsole::Record(const JsonObject& line) {
  // A full disk shall not end the training.
  const absl::Status status = record_->Add(line);
  if (!status.ok()) OnWarning("no further record: " + std::string(status.message()));
}

void TrainConsole::PrintJson(const JsonObject& line) const {
  fmt::print("{}", JsonLine(line));
  std::fflush(stdout);
}

}  // namespace nerf
