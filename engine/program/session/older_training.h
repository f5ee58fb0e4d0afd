#pragma once

#include <string>

namespace nerf {

// What a training that writes to the folder `out` overwrites there: one line that names the files
// and what trained them. Empty where there are none, and where `resume`, the checkpoint that is
// continued (empty: none), is one of them.
std::string OverwrittenTraining(const std::string& out, const std::string& resume);

}  // namespace nerf
