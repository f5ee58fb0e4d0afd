#pragma once

#include <string>

#include "engine/base/bench.h"
#include "engine/base/config/train_config.h"
#include "engine/scene/scene.h"
#include "engine/train/method.h"

namespace nerf {

// A bench of whole steps of a method on the CPU, in trained samples, with `config` but at the full
// learning rate and number of samples from the first step on. n_before steps, in which the field
// and its grid take shape, are not counted. method and scene outlive the bench.
Bench StepBench(std::string name, const Method& method, const TrainConfig& config,
                const Scene& scene, int n_before);

// The same with the method's defaults.
Bench StepBench(std::string name, const Method& method, const Scene& scene, int n_before);

}  // namespace nerf
