#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nerf {

// An error in a data set that must be fixed before it can be used.
struct SceneProblem {
  std::string file;   // relative to the data set's folder; empty: the folder itself
  std::string field;  // "frames[3].transform_matrix", "line 12", "camera 2"; empty: the whole file
  std::string message;  // what is wrong and what is expected

  bool operator==(const SceneProblem&) const = default;
};

// "file: field: message", control characters replaced.
std::string ToString(const SceneProblem& problem);

// Adds a problem unless an equal one exists (a bad value at file level would otherwise be reported
// once per view). Lists stop growing at a thousand.
void AddProblem(std::vector<SceneProblem>* problems, std::string_view file, std::string_view field,
                std::string_view message);

// The first few problems, one per line, and the number of further ones.
std::string SummaryOf(const std::vector<SceneProblem>& problems);

}  // namespace nerf
