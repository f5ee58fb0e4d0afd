#include "engine/tool/json_lines.h"

#include <cmath>

#include "common/error_reason.h"

namespace nerf {

std::string JsonLine(const JsonObject& object) {
  return object.dump(-1, ' ', false, JsonObject::error_handler_t::replace) + "\n";
}

JsonObject JsonNumber(double number) {
  return std::isfinite(number) ? JsonObject(number) : JsonObject(nullptr);
}

void SetProgress(const TrainProgress& progress, JsonObject* object) {
  JsonObject& o = *object;
  o["step"] = progress.step;
  o["samples"] = progress.n_trained;
  o["marched"] = progress.n_marched;
  o["rays"] = progress.n_rays;
  o["loss"] = JsonNumber(progress.loss);
  o["psnr_train"] = JsonNumber(progress.psnr_train);
  o["samples_per_second"] = JsonNumber(progress.samples_per_second);
  o["rays_per_second"] = JsonNumber(progress.rays_per_second);
  o["stall_fraction"] = JsonNumber(progress.stall_fraction);
  o["seconds"] = JsonNumber(progress.seconds);
}

void SetSummary(const TrainSummary& summary, JsonObject* object) {
  JsonObject& o = *object;
  const TrainState& state = *summary.state;
  o["step"] = state.step;
  o["samples"] = state.n_trained;
  o["marched"] = state.n_marched;
  o["rays"] = state.n_rays;
  o["seconds"] = JsonNumber(state.seconds);
  o["samples_per_second"] = JsonNumber(summary.samples_per_second);
  o["peak_rss_bytes"] = PeakRssBytes();
  if (summary.psnr.has_value()) o["psnr"] = JsonNumber(*summary.psnr);
  o["checkpoint"] = summary.checkpoint;
  o["model"] = summary.model;
}

std::string CodeName(absl::StatusCode code) { return absl::StatusCodeToString(code); }

std::string ReasonOf(const absl::Status& status) {
  if (const auto found = GetReason(status); found.has_value()) return found->reason;
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return std::string(reason::kFieldInvalid);
    case absl::StatusCode::kNotFound:
      return std::string(reason::kResourceNotFound);
    case absl::StatusCode::kDataLoss:
      return std::string(reason::kCheckpointCorrupt);
    case absl::StatusCode::kResourceExhausted:
      return std::string(reason::kOutOfMemory);
    case absl::StatusCode::kAborted:
      return std::string(reason::kTrainingDiverged);
    default:
      return CodeName(status.code());
  }
}

JsonObject TensorList(const TensorFile& file) {
  JsonObject list = JsonObject::array();
  for (const auto& [name, tensor] : file.tensors) {
    JsonObject entry;
    entry["name"] = name;
    entry["dtype"] = std::string(DTypeName(tensor.dtype));
    entry["shape"] = tensor.shape;
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace nerf
