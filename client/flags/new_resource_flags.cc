#include "client/flags/new_resource_flags.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "client/flags/names.h"
#include "common/problems.h"
#include "fmt/format.h"

namespace nerf {

void AddNewResourceFlags(CLI::App& app, NewResourceFlags* flags, const std::string& default_name) {
  const std::string by_default =
      default_name.empty() ? "" : fmt::format(" (default: {})", default_name);
  app.add_option("--display-name", flags->display_name, "Name shown to people" + by_default)
      ->type_name("TEXT");
  app.add_option("--id", flags->id, "Wanted id (default: the server makes one)")->type_name("ID");
  app.add_option("--request-id", flags->request_id,
                 "UUID4 that makes repeating this command safe (default: a new one)")
      ->type_name("UUID");
}

absl::StatusOr<std::string> RequestIdOrNew(const std::string& text, RandomSource& random) {
  if (text.empty()) return NewUuid4(random);
  if (IsUuid4(text)) return text;
  return absl::InvalidArgumentError(
      fmt::format("--request-id: '{}' is not a UUID4", text.substr(0, 64)));
}

absl::Status CompleteNewResourceFlags(NewResourceFlags* flags, RandomSource& random) {
  Problems problems;
  problems.AddOrAssign(RequestIdOrNew(flags->request_id, random), &flags->request_id);
  if (!flags->id.empty()) problems.Add(CheckResourceId("--id", flags->id));
  problems.Add(CheckDisplayName("--display-name", flags->display_name));
  return problems.Result();
}

}  // namespace nerf
