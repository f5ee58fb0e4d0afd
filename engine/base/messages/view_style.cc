#include "engine/base/messages/view_style.h"

#include <string>

#include "engine/base/config/view_style_check.h"
#include "engine/base/messages/crop_box.h"

namespace nerf {

ViewStyle ReadViewStyle(std::string_view field, const v1::ViewStyle& message, Problems* problems) {
  const std::string within = std::string(field) + ".";
  ViewStyle style;
  if (const auto& color = message.background(); !color.empty()) {
    problems->Require(color.size() == 3, within + "background", "must be 3 numbers");
    if (color.size() == 3) {
      style.background = {static_cast<float>(color[0]), static_cast<float>(color[1]),
                          static_cast<float>(color[2])};
    }
  }
  if (message.has_panorama()) {
    const bool is_known = v1::Panorama::Stereo_IsValid(message.panorama().stereo());
    problems->Require(is_known, within + "panorama.stereo",
                      "is not a layout known to this version");
    if (is_known) {
      style.panorama = {static_cast<StereoLayout>(message.panorama().stereo()),
                        message.panorama().eye_distance()};
    }
  }
  problems->Add(ProblemsOf(style), field);
  if (message.has_crop()) style.crop = ReadCropBox(within + "crop", message.crop(), problems);
  problems->Require(!message.has_crop() || !message.whole(), within + "whole",
                    "has no effect with crop");
  return style;
}

v1::ViewStyle ToMessage(const ViewStyle& style) {
  v1::ViewStyle message;
  if (style.background.has_value()) {
    for (int i = 0; i < 3; ++i) message.add_background((*style.background)[i]);
  }
  if (style.crop.has_value()) *message.mutable_crop() = ToMessage(*style.crop);
  if (style.panorama.has_value()) {
    message.mutable_panorama()->set_stereo(
        static_cast<v1::Panorama::Stereo>(style.panorama->stereo));
    message.mutable_panorama()->set_eye_distance(style.panorama->eye_distance);
  }
  return message;
}

}  // namespace nerf
