#include "client/error_printer.h"

#include <ostream>

#include "client/text_format.h"
#include "common/error_reason.h"
#include "fmt/format.h"

namespace nerf {

void PrintError(const absl::Status& status, std::ostream& err) {
  const std::vector<FieldViolation> violations = GetFieldViolations(status);
  const std::optional<ErrorReason> reason = GetReason(status);
  std::string message = PlainText({status.message().data(), status.message().size()});
  // The message of several violations is the list that follows anyway.
  if (violations.size() > 1) message = fmt::format("{} fields are wrong", violations.size());
  if (message.empty()) message = "the call failed without a message";
  err << "nerfctl: " << message << " ("
      << PlainText(reason.has_value() ? reason->reason : absl::StatusCodeToString(status.code()))
      << ")\n";
  if (violations.size() == 1 && message.find(violations[0].description) != std::string::npos)
    return;
  for (const FieldViolation& violation : violations) {
    err << "  " << PlainText(violation.field) << ": " << PlainText(violation.description) << '\n';
  }
}

}  // namespace nerf
