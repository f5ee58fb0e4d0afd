#include "engine/scene/scene_problem.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/scene/scene_files.h"

namespace nerf {
namespace {

constexpr size_t kMaxProblems = 1000;
constexpr size_t kMaxInSummary = 8;

}  // namespace

std::string ToString(const SceneProblem& problem) {
  std::string text;
  for (const std::string* part : {&problem.file, &problem.field, &problem.message}) {
    if (part->empty()) continue;
    if (!text.empty()) text += ": ";
    text += Printable(*part);
  }
  return text;
}

void AddProblem(std::vector<SceneProblem>* problems, std::string_view file, std::string_view field,
                std::string_view message) {
  if (problems->size() > kMaxProblems) return;
  SceneProblem problem{std::string(file), std::string(field), std::string(message)};
  if (problems->size() == kMaxProblems) {
    problem = {"", "", "there are more problems than these"};
  }
  if (std::find(problems->begin(), problems->end(), problem) == problems->end()) {
    problems->push_back(std::move(problem));
  }
}

std::string SummaryOf(const std::vector<SceneProblem>& problems) {
  std::string text;
  for (size_t i = 0; i < std::min(problems.size(), kMaxInSummary); ++i) {
    if (i > 0) text += '\n';
    text += ToString(problems[i]);
  }
  if (problems.size() > kMaxInSummary) {
    absl::StrAppend(&text, "\nand ", problems.size() - kMaxInSummary, " more problems");
  }
  return text;
}

}  // namespace nerf
