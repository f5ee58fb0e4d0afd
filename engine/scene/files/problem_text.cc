#include "engine/scene/files/problem_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/scene/files/scene_files.h"

namespace nerf {
namespace {

constexpr size_t kMaxInSummary = 8;

}  // namespace

std::string ToString(const Problem& problem) {
  std::string text;
  for (const std::string* part : {&problem.file, &problem.field, &problem.message}) {
    if (part->empty()) continue;
    if (!text.empty()) text += ": ";
    text += Printable(*part);
  }
  return text;
}

std::string SummaryOf(const Problems& problems) {
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
