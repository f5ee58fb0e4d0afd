#include "common/problems.h"

#include <algorithm>
#include <string>

namespace nerf {
namespace {

constexpr size_t kMaxProblems = 1000;

}  // namespace

void Problems::Add(std::string_view file, std::string_view field, std::string_view message) {
  if (list_.size() > kMaxProblems) return;
  Problem problem{std::string(file), std::string(field), std::string(message)};
  if (list_.size() == kMaxProblems) problem = {"", "there are more problems than these"};
  if (std::find(list_.begin(), list_.end(), problem) == list_.end())
    list_.push_back(std::move(problem));
}

void Problems::Add(std::string_view field, const absl::Status& status) {
  if (!status.ok()) Add(field, {status.message().data(), status.message().size()});
}

void Problems::Add(const absl::Status& status) {
  const std::vector<Problem> several = GetProblems(status);
  for (const Problem& problem : several) Add(problem.field, problem.message);
  if (!several.empty()) return;
  const std::string_view message(status.message().data(), status.message().size());
  const size_t colon = message.starts_with("--") ? message.find(": ") : std::string_view::npos;
  if (colon == std::string_view::npos) return Add("", status);
  Add(message.substr(0, colon), message.substr(colon + 2));
}

void Problems::Add(const Problems& others, std::string_view field) {
  for (const Problem& problem : others) {
    const bool has_both = !field.empty() && !problem.field.empty();
    Add(problem.file, std::string(field) + (has_both ? "." : "") + problem.field, problem.message);
  }
}

absl::Status Problems::Result() const {
  return list_.empty() ? absl::OkStatus() : InvalidFieldsError(list_);
}

}  // namespace nerf
