#pragma once

#include <string>

namespace nerf {

// Path of libnerf_autograd.so (engine/autograd), which has the step of method ngp-autograd: ../lib
// relative to the folder of this program.
std::string AutogradLibraryPath();

}  // namespace nerf
