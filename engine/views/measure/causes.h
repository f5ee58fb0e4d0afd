#pragma once

#include <string>
#include <vector>

#include "engine/views/measure/scene_measures.h"

namespace nerf {

// What keeps a scene from being better.
struct Cause {
  std::string cause;     // "budget", "table", "few pictures", "occluded", "blur", "exposure",
                         // "exposures", "stray pose", "poses", "focal length", "mirror", "moved"
  double gain_db = 0;    // what the views at its place would gain without it, as a rule
  std::string place;     // the photographs that show it; empty: everywhere
  std::string sentence;  // what was measured, where, and what to do about it
};

// Every cause that costs half a dB or more, the most important one first.
std::vector<Cause> FindCauses(const SceneMeasures& measures);

// Means over the views that have the figure; kNotMeasured without any.
double MeanOf(const std::vector<ViewMeasure>& views, bool of_test, double ViewMeasure::*figure);

}  // namespace nerf
