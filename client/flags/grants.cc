#include "client/flags/grants.h"

#include <fmt/format.h>

#include <algorithm>

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

bool HasRole(const v1::Access& access, std::string_view role) {
  const auto rank = [](std::string_view name) {
    return name == "viewer" ? 1 : name == "editor" ? 2 : name == "admin" ? 3 : 0;
  };
  return std::any_of(access.grants().begin(), access.grants().end(), [&](const auto& grant) {
    const std::string name = absl::AsciiStrToLower(v1::Token::Role_Name(grant.role()));
    return name == role || (rank(role) > 0 && rank(name) >= rank(role));
  });
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
