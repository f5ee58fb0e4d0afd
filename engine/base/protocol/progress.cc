#include "engine/base/protocol/progress.h"

#include <cmath>

#include "engine/base/protocol/json.h"
#include "engine/base/protocol/key_reader.h"

namespace nerf {
namespace {

using P = TrainProgress;
using enum ProgressFigure::Presence;
using enum ProgressFigure::Owner;

constexpr ProgressFigure kFigures[] = {
    {"samples", &P::samples, kAlways, /*is_count=*/true},
    {"marched", &P::marched, kAlways, true},
    {"rays", &P::rays, kAlways, true},
    {"loss", &P::loss},
    {"psnr_train", &P::psnr_train},
    {"samples_per_second", &P::samples_per_second},
    {"rays_per_second", &P::rays_per_second},
    {"stall_fraction", &P::stall_fraction, kIfKnown, false, kWorker},
    {"seconds", &P::seconds},
    {"fraction", &P::fraction},
    {"eta_seconds", &P::eta_seconds},
    {"evaluated_views", &P::evaluated_views, kIfKnown, true},
    {"evaluation_views", &P::evaluation_views, kIfKnown, true},
    {"occupied_share", &P::occupied_share, kIfKnown},
    {"picture_width", &P::picture_width, kIfKnown, true},
    {"picture_height", &P::picture_height, kIfKnown, true},
    {"trained_width", &P::trained_width, kIfKnown, true},
    {"trained_height", &P::trained_height, kIfKnown, true},
    {"evaluated_width", &P::evaluated_width, kIfKnown, true},
    {"evaluated_height", &P::evaluated_height, kIfKnown, true},
    {"gpu_utilization", &P::gpu_utilization, kIfKnown, false, kWorker},
    {"gpu_memory_used_bytes", &P::gpu_memory_used_bytes, kIfKnown, false, kWorker},
    {"gpu_memory_size_bytes", &P::gpu_memory_size_bytes, kIfKnown, false, kWorker},
    {"gpu_temperature_celsius", &P::gpu_temperature_celsius, kIfKnown, false, kWorker},
    {"gpu_power_watts", &P::gpu_power_watts, kIfKnown, false, kWorker},
};

// Doubles count exactly up to here.
constexpr double kMaxCount = 9007199254740992.0;  // 2^53

JsonObject CountOrNumber(double value, bool is_count) {
  if (!is_count || !(std::abs(value) <= kMaxCount)) return JsonNumber(value);
  return JsonObject(static_cast<int64_t>(value));
}

}  // namespace

std::span<const ProgressFigure> ProgressFigures() { return kFigures; }

void SetProgress(const TrainProgress& progress, JsonObject* object) {
  (*object)["step"] = progress.step;
  for (const ProgressFigure& figure : kFigures) {
    const double value = progress.*figure.value;
    if (figure.presence == kIfKnown && !std::isfinite(value)) continue;
    (*object)[figure.name] = CountOrNumber(value, figure.is_count);
  }
}

TrainProgress ReadProgress(KeyReader* reader) {
  TrainProgress progress;
  progress.step = reader->Count("step", Need::kRequired);
  for (const ProgressFigure& figure : kFigures)
    progress.*figure.value = reader->Number(figure.name, Need::kOptional).value_or(kUnknownFigure);
  return progress;
}

void SetSummary(const TrainSummary& summary, JsonObject* object) {
  JsonObject& o = *object;
  o["step"] = summary.step;
  o["samples"] = CountOrNumber(summary.samples, true);
  o["marched"] = CountOrNumber(summary.marched, true);
  o["rays"] = CountOrNumber(summary.rays, true);
  o["seconds"] = JsonNumber(summary.seconds);
  o["samples_per_second"] = JsonNumber(summary.samples_per_second);
  o["stall_fraction"] = JsonNumber(summary.stall_fraction);
  o["peak_rss_bytes"] = CountOrNumber(summary.peak_rss_bytes, true);
  if (summary.psnr.has_value()) o["psnr"] = JsonNumber(*summary.psnr);
  if (summary.ssim.has_value()) o["ssim"] = JsonNumber(*summary.ssim);
  if (summary.lpips.has_value()) o["lpips"] = JsonNumber(*summary.lpips);
  o["checkpoint"] = summary.checkpoint;
  o["model"] = summary.model;
}

TrainSummary ReadSummary(KeyReader* reader) {
  const auto number = [&](const char* key) {
    return reader->Number(key, Need::kOptional).value_or(0);
  };
  TrainSummary summary;
  summary.step = reader->Count("step", Need::kRequired);
  summary.samples = number("samples");
  summary.marched = number("marched");
  summary.rays = number("rays");
  summary.seconds = number("seconds");
  summary.samples_per_second = number("samples_per_second");
  summary.stall_fraction = number("stall_fraction");
  summary.peak_rss_bytes = number("peak_rss_bytes");
  summary.psnr = reader->Number("psnr", Need::kOptional);
  summary.ssim = reader->Number("ssim", Need::kOptional);
  summary.lpips = reader->Number("lpips", Need::kOptional);
  summary.checkpoint = reader->Text("checkpoint", Need::kOptional);
  summary.model = reader->Text("model", Need::kOptional);
  return summary;
}

}  // namespace nerf
