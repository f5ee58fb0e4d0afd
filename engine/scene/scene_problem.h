#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nerf {

// Something wrong in a data set that has to be put right before it can be used.
struct SceneProblem {
  std::string file;   // relative to the data set's folder; empty: the folder itself
  std::string field;  // "frames[3].transform_matrix", "line 12", "camera 2"; empty: the whole file
  std::string message;  // what is wrong and what would be right

  bool operator==(const SceneProblem&) const = default;
};

// "file: field: message", control characters replaced.
std::string ToString(const SceneProblem& problem);

// Adds one unless the same is there already (a bad value at file level would otherwise come once
// for each view). Lists stop growing at a thousand.
void AddProblem(std::vector<SceneProblem>* problems, std::string_view file, std::string_view field,
                std::string_view message);

// The first few, one a line, and how many there are.
std::string SummaryOf(const std::vector<SceneProblem>& problems);

}  // namespace nerf
