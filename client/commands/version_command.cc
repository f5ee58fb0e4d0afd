#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>
#include <ostream>

#include "client/calls/session.h"
#include "client/commands/commands.h"
#include "common/process/exit_code.h"

namespace nerf {

void AddVersionCommand(CLI::App& app, Command* selected) {
  CLI::App* version = app.add_subcommand("version", "Print the version");
  version->footer("Example:\n  nerfctl version --json");
  version->callback([=] {
    *selected = [](Session& session) -> int {
      const Printer printer = session.printer();
      if (!PrintJson(printer, nlohmann::ordered_json{{"version", NERF_VERSION}})) {
        printer.out << "nerfctl " NERF_VERSION "\n";
      }
      return kOk;
    };
  });
}

}  // namespace nerf
