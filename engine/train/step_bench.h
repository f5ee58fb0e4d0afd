#pragma once

#include <string>

#include "engine/base/bench.h"
#include "engine/scene/scene.h"
#include "engine/train/method.h"

namespace nerf {

// A bench of whole steps of a method with its defaults on the CPU, in trained samples. n_before
// steps, in which the field and its grid take shape, are not counted. method and scene outlive the
// bench.
Bench StepBench(std::string name, const Method& method, const Scene& scene, int n_before);

}  // namespace nerf
