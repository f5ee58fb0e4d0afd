#pragma once

#include <string>
#include <vector>

#include "engine/base/config/device_class.h"

namespace nerf {

struct NamedDevice {
  std::string name;
  DeviceFacts facts;
};

// A table for people: what method ngp chooses on a CPU, an L4, an A100, an H100 and `more` devices
// for budgets in seconds, of a stated data set. As trainings choose (ChooseSettings).
std::string DeviceChoiceTable(const std::vector<NamedDevice>& more);

}  // namespace nerf
