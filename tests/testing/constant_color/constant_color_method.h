#pragma once

#include "engine/train/method.h"

namespace nerf {

// A method that only tests have: one color, the mean of the pixels, for every ray. It shows what a
// method needs: this folder, and one line that adds it to the registry (AddMethod here, a line of
// describe/method_list.inc in the product).
const Method& ConstantColorMethod();

}  // namespace nerf
