#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stop_token>
#include <string>
#include <system_error>

#include "client/calls/session.h"
#include "client/commands/commands.h"
#include "client/flags/access.h"
#include "common/files/atomic_file.h"
#include "common/files/places.h"
#include "common/process/child_process.h"
#include "common/process/exit_code.h"
#include "common/process/local_server.h"
#include "fmt/format.h"

namespace nerf {
namespace {

bool HasDesktop() {
  for (const char* name : {"DISPLAY", "WAYLAND_DISPLAY"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') return true;
  }
  return false;
}

// The page at `link` in the user's browser. False if there is none. The browser opens a file of
// this user alone that leads there: all users see the arguments of a process, and the link has a
// token.
bool OpenInBrowser(const std::string& link) {
  constexpr absl::Duration kTimeLimit = absl::Seconds(10);
  const std::string file = DefaultStateDir() + "/open.html";
  const std::string lead =
      fmt::format("<!doctype html><meta http-equiv=\"refresh\" content=\"0;url={}\">\n", link);
  std::error_code error;
  std::filesystem::create_directories(DefaultStateDir(), error);
  if (error || !WriteFileAtomically(file, lead, 0600).ok()) return false;
  ChildProcessSpec spec;
  spec.arguments = {"xdg-open", file};
  spec.time_limit = kTimeLimit;
  auto opener = ChildProcess::Start(spec);
  return opener.ok() && opener->Wait({}, {}, std::stop_token()).ok();
}

int Open(Session& session, bool only_print) {
  const GlobalFlags& flags = session.flags();
  const std::string page = FindLocalPage(flags.server);
  if (page.empty()) {
    return session.Fail(absl::NotFoundError(fmt::format(
        "no nerfd of yours serves {} with a page on this machine; the page of another machine is "
        "where its operator says",
        flags.server)));
  }
  const absl::StatusOr<std::string> token = ResolveToken(flags);
  if (!token.ok()) return session.FailUsage(token.status());
  const std::string link = token->empty() ? page : fmt::format("{}#token={}", page, *token);
  const bool opened =
      !only_print && session.io().out_is_terminal && HasDesktop() && OpenInBrowser(link);
  const Printer printer = session.printer();
  if (!PrintJson(printer, nlohmann::ordered_json{{"page", link}, {"opened", opened}})) {
    printer.out << link << '\n';
  }
  return kOk;
}

}  // namespace

void AddOpenCommand(CLI::App& app, Command* selected) {
  CLI::App* open = app.add_subcommand(
      "open", "Open the page of the nerfd on this machine, or print its link with the token");
  auto only_print = std::make_shared<bool>(false);
  open->add_flag("--print", *only_print, "Only print the link");
  open->footer("Example:\n  nerfctl open");
  open->callback([=] { *selected = [=](Session& s) { return Open(s, *only_print); }; });
}

}  // namespace nerf
