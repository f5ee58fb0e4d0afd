#pragma once

#include <string>
#include <vector>

#include "engine/scene/files/problem_text.h"

namespace nerf {

// What is odd about a scene: where, why, and what to do about it.
struct Verdict {
  std::string file;    // relative to the data set's folder
  std::string field;   // as Problem has it
  std::string cause;   // what is odd, with the pictures that show it
  std::string remedy;  // what the user can do
};

// Collects verdicts: errors refuse the scene, warnings do not.
class Verdicts {
 public:
  // Both are borrowed.
  Verdicts(Problems* problems, std::vector<std::string>* warnings)
      : problems_(*problems), warnings_(*warnings) {}

  void Refuse(const Verdict& verdict);
  void Warn(const Verdict& verdict);

 private:
  Problems& problems_;
  std::vector<std::string>& warnings_;
};

}  // namespace nerf
