#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "engine/tool/training_session.h"
#include "engine/train/evaluation.h"
#include "engine/train/trainer.h"
#include "nlohmann/json.hpp"

namespace nerf {

// JSON objects as the commands print them and `serve` sends them: keys in the order in which they
// were set, invalid UTF-8 replaced, numbers that JSON cannot hold as null.
using JsonObject = nlohmann::ordered_json;

// One line, with its newline.
std::string JsonLine(const JsonObject& object);

// The number, or null where it is not finite.
JsonObject JsonNumber(double number);

// The keys of a progress line from "step" to "seconds", set on *object.
void SetProgress(const TrainProgress& progress, JsonObject* object);

// The keys of a done line from "step" to "model". psnr: NaN where there are no test views, unset
// where nobody evaluated.
struct TrainSummary {
  const TrainState* state = nullptr;
  double samples_per_second = 0;
  std::optional<double> psnr;
  std::string checkpoint, model;
};
void SetSummary(const TrainSummary& summary, JsonObject* object);

// Name of a canonical code, "INVALID_ARGUMENT"; the reason of an error, or one that follows from
// its code.
std::string CodeName(absl::StatusCode code);
std::string ReasonOf(const absl::Status& status);

// [{"name","dtype","shape"}] of a file's tensors.
JsonObject TensorList(const TensorFile& file);

}  // namespace nerf
