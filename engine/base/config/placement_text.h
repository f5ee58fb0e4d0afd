#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "engine/base/config/train_config.h"

namespace nerf {

// TrainConfig::poses as the text of setting poses.
std::string PosesText(const TrainConfig& config);
absl::Status ParsePoses(std::string_view text, TrainConfig* config);

// TrainConfig::placement as the texts of settings box, boxes and up (Setting::get_text, set_text).
std::string BoxText(const TrainConfig& config);
absl::Status ParseBox(std::string_view text, TrainConfig* config);
std::string BoxesText(const TrainConfig& config);
absl::Status ParseBoxes(std::string_view text, TrainConfig* config);
std::string UpText(const TrainConfig& config);
absl::Status ParseUp(std::string_view text, TrainConfig* config);

}  // namespace nerf
