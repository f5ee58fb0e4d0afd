#pragma once

#include <vector>

#include "engine/base/config/setting.h"

namespace nerf {

// The settings that all methods honor which march rays through an occupancy grid and train with
// Adam.
std::vector<Setting> GridMethodSettings(DeviceSet devices = kOnEveryDevice);

}  // namespace nerf
