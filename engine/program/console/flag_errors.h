#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/problems.h"

namespace nerf {

// Collects what is wrong with the flags of a command, so that all of it is said at once.
class FlagErrors {
 public:
  // OK adds nothing.
  void Add(const absl::Status& status) {
    if (status.ok()) return;
    if (!first_.ok()) text_ += "\n  ";
    first_.Update(status);
    text_ += std::string(status.message());
  }
  void Add(const Problems& problems) {
    for (const Problem& problem : problems) {
      const std::string flag = problem.field.empty() ? "" : problem.field + ": ";
      Add(absl::InvalidArgumentError(flag + problem.message));
    }
  }
  // The errors, one a line, with the code of the first.
  absl::Status ToStatus() const {
    return first_.ok() ? first_ : absl::Status(first_.code(), text_);
  }

 private:
  absl::Status first_;
  std::string text_;
};

}  // namespace nerf
