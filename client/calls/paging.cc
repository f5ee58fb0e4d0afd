#include "client/calls/paging.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

#include "client/show/resource_printers.h"
#include "common/process/exit_code.h"
#include "fmt/format.h"

namespace nerf {

std::shared_ptr<int> AddLimitFlag(CLI::App& app) {
  auto limit = std::make_shared<int>(100);
  app.add_option("--limit", *limit, "List at most this many; 0: all")
      ->type_name("N")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  return limit;
}

void SayMoreExists(const Session& session, int limit) {
  session.Say(fmt::format("there are more than {}; --limit 0 lists all", limit));
}

int RemoveEach(Session& session, ResourceKind kind, const std::vector<std::string>& texts,
               const std::function<absl::Status(const std::string& name)>& remove) {
  std::vector<std::string> names;
  for (const std::string& text : texts) {
    absl::StatusOr<std::string> name = ExpandName(kind, text, session.flags().project);
    if (!name.ok()) return session.FailUsage(name.status());
    names.push_back(*std::move(name));
  }
  int exit_code = kOk;
  const Printer printer = session.printer();
  nlohmann::ordered_json deleted = nlohmann::ordered_json::array();
  for (const std::string& name : names) {
    const absl::Status status = remove(name);
    if (status.ok()) {
      deleted.push_back({{"name", name}});
      // An array of JSON is printed as a whole.
      if (printer.format != OutputFormat::kJson) {
        PrintDone(printer, name, fmt::format("deleted {}", ShortName(name)));
      }
      continue;
    }
    const int failed = session.Fail(status);
    if (exit_code == kOk) exit_code = failed;
    if (absl::IsCancelled(status)) break;
  }
  if (printer.format == OutputFormat::kJson) PrintJson(printer, deleted);
  return exit_code;
}

}  // namespace nerf
