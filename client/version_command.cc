#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <ostream>

#include "client/commands.h"
#include "client/session.h"
#include "common/exit_code.h"

namespace nerf {

void AddVersionCommand(CLI::App& app, Command* selected) {
  CLI::App* version = app.add_subcommand("version", "Print the version");
  version->footer("Example:\n  nerfctl version --json");
  version->callback([=] {
    *selected = [](Session& session) -> int {
      const OutputFormat format = session.flags().output;
      const bool json = format == OutputFormat::kJson || format == OutputFormat::kJsonLines;
      *session.io().out << (json ? "{\"version\":\"" NERF_VERSION "\"}\n"
                                 : "nerfctl " NERF_VERSION "\n");
      return kOk;
    };
  });
}

}  // namespace nerf
