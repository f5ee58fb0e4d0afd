#pragma once

#include <string>

#include "nerf/v1/common.pb.h"
#include "nerf/v1/render_service.pb.h"

namespace nerf {

// The bytes in which jobs and models keep a box (Job::crop); empty without one. The box is checked.
std::string KeptCrop(bool has_box, const v1::CropBox& box);
// The kept box, as the `crop` of a message. Leaves the message as it is without one.
template <typename Message>
void ShowKeptCrop(const std::string& kept, Message* message) {
  if (!kept.empty() && !message->mutable_crop()->ParseFromString(kept)) message->clear_crop();
}
// The style with the kept box, unless it has one of its own or says that it wants none.
void UseKeptCrop(const std::string& kept, v1::ViewStyle* style);

}  // namespace nerf
