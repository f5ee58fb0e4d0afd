#include "client/flags/violations.h"

namespace nerf {

void Violations::Add(const absl::Status& status) {
  if (status.ok()) return;
  std::vector<FieldViolation> several = GetFieldViolations(status);
  if (several.empty()) {
    const std::string_view message(status.message().data(), status.message().size());
    const size_t colon = message.starts_with("--") ? message.find(": ") : std::string_view::npos;
    if (colon == std::string_view::npos) return Add("", std::string(message));
    return Add(message.substr(0, colon), std::string(message.substr(colon + 2)));
  }
  for (FieldViolation& violation : several) violations_.push_back(std::move(violation));
}

absl::Status Violations::ToStatus() const {
  return violations_.empty() ? absl::OkStatus() : InvalidFieldsError(violations_);
}

}  // namespace nerf
