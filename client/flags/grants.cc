#include "client/flags/grants.h"

#include <fmt/format.h>

#include "absl/strings/ascii.h"
#include "client/flags/names.h"
#include "client/flags/text_format.h"

namespace nerf {

std::string GrantsText(const v1::Access& access) {
  std::string text;
  for (const v1::Access::Grant& grant : access.grants()) {
    const std::string where = !grant.resource().empty() ? grant.resource()
                              : grant.project().empty() ? "every project"
                                                        : ShortName(grant.project());
    text +=
        fmt::format("{}{} of {}", text.empty() ? "" : ", ",
                    absl::AsciiStrToLower(v1::Token::Role_Name(grant.role())), PlainText(where));
  }
  return text;
}

std::string OnlyProject(const v1::Access& access) {
  std::string only;
  for (const v1::Access::Grant& grant : access.grants()) {
    if (grant.project().empty() || (!only.empty() && grant.project() != only)) return "";
    only = grant.project();
  }
  return ShortName(only);
}

}  // namespace nerf
