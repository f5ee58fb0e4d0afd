#include <fmt/format.h>
#include <termios.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "absl/strings/ascii.h"
#include "client/calls/session.h"
#include "client/commands/commands.h"
#include "client/flags/context_file.h"
#include "client/flags/grants.h"
#include "client/flags/text_format.h"
#include "client/show/resource_printers.h"
#include "client/show/text_table.h"
#include "common/files/flag_file.h"
#include "common/ids.h"
#include "common/process/exit_code.h"
#include "common/rpc/channel.h"
#include "nerf/v1/admin_service.grpc.pb.h"

namespace nerf {
namespace {

// Turns off the terminal's echo while it exists.
class HiddenTyping {
 public:
  HiddenTyping() {
    if (tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios hidden = before_;
    hidden.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    is_hidden_ = tcsetattr(STDIN_FILENO, TCSANOW, &hidden) == 0;
  }
  ~HiddenTyping() {
    if (is_hidden_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }

 private:
  termios before_{};
  bool is_hidden_ = false;
};

std::string AskForToken(Session& session) {
  std::string line;
  if (isatty(STDIN_FILENO) != 0) {
    session.Say(fmt::format("token for {} (it is not shown):", session.flags().server));
    const HiddenTyping hidden;
    std::getline(std::cin, line);
  } else {
    std::getline(std::cin, line);
  }
  return std::string(absl::StripAsciiWhitespace(line));
}

std::string Absolute(const std::string& path) {
  if (path.empty() || path == "system") return path;
  std::error_code error;
  return std::filesystem::absolute(path, error).lexically_normal().string();
}

int Login(Session& session, std::string name) {
  GlobalFlags flags = session.flags();
  if (name.empty()) name = flags.server;
  // Uses a token that was given to this command alone, not one from the environment or a context.
  const bool from_file = !flags.token_file.empty();
  absl::StatusOr<std::string> token = from_file
                                          ? ReadTokenFile(flags.token_file)
                                          : CheckToken("standard input", AskForToken(session));
  if (!token.ok() && from_file) return session.Fail(FlagFileError("--token-file", token.status()));
  if (!token.ok()) return session.FailUsage(token.status());
  flags.token_file.clear();
  flags.context_token = *token;
  Session trial(flags, session.io());
  const auto stub = trial.Stub<v1::AdminService>();
  const auto access = trial.Call(*stub, &v1::AdminService::Stub::GetAccess, v1::GetAccessRequest());
  if (!access.ok()) return session.Fail(access.status());
  const std::string only = OnlyProject(*access);
  if (!only.empty() && !flags.project_is_given) flags.project = only;
  absl::StatusOr<Contexts> contexts = ReadContexts(ContextPath());
  if (!contexts.ok()) return session.Fail(contexts.status());
  contexts->current = name;
  contexts->by_name[name] = {flags.server,
                             flags.project,
                             *token,
                             Absolute(flags.tls.ca),
                             Absolute(flags.tls.cert),
                             Absolute(flags.tls.key),
                             flags.insecure};
  const absl::Status written = WriteContexts(ContextPath(), *contexts);
  if (!written.ok()) return session.Fail(written);
  PrintDone(session.printer(), name,
            fmt::format("logged in to {} as {}{}{}", flags.server, PlainText(access->principal()),
                        access->grants().empty() ? "" : ", ", GrantsText(*access)));
  if (!only.empty() && flags.project != only) {
    session.Say(
        fmt::format("  commands are for project {}, which the token is not for", flags.project));
  }
  return kOk;
}

int ListContexts(Session& session) {
  const absl::StatusOr<Contexts> contexts = ReadContexts(ContextPath());
  if (!contexts.ok()) return session.Fail(contexts.status());
  const Printer printer = session.printer();
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [name, context] : contexts->by_name) {
    if (printer.format == OutputFormat::kName) printer.out << PlainText(name) << '\n';
    list.push_back({{"name", name},
                    {"server", context.server},
                    {"project", context.project},
                    {"ca", context.ca},
                    {"current", name == contexts->current}});
  }
  if (printer.format == OutputFormat::kName || PrintJson(printer, list)) return kOk;
  TextTable table({"", "NAME", "SERVER", "PROJECT", "TLS"});
  for (const auto& [name, context] : contexts->by_name) {
    table.AddRow({name == contexts->current ? "*" : " ", name, context.server, context.project,
                  context.ca.empty() ? "no" : context.ca});
  }
  table.Print(printer.out);
  return kOk;
}

// Changes the context of that name in the file.
template <typename Change>
int ChangeContext(Session& session, const std::string& name, const char* done, Change change) {
  absl::StatusOr<Contexts> contexts = ReadContexts(ContextPath());
  if (!contexts.ok()) return session.Fail(contexts.status());
  if (contexts->by_name.count(name) == 0) {
    session.SayError(fmt::format(
        "nerfctl: there is no context '{}'; `nerfctl context ls` lists them", PlainText(name)));
    return kNotFound;
  }
  change(*contexts);
  const absl::Status written = WriteContexts(ContextPath(), *contexts);
  if (!written.ok()) return session.Fail(written);
  PrintDone(session.printer(), name, fmt::format("{} {}", name, done));
  return kOk;
}

}  // namespace

void AddLoginCommands(CLI::App& app, Command* selected) {
  CLI::App* login = app.add_subcommand("login", "Keep a server's address and token");
  auto name = std::make_shared<std::string>();
  login->add_option("--name", *name, "Name of the context; default: the server's address")
      ->type_name("NAME");
  login->footer(
      "Reads the token from standard input, or from --token-file. Keeps --project, or the token's\n"
      "project if it is for one alone.\n"
      "Example:\n  nerfctl login --server nerf.example.com:50051 --ca system");
  login->callback([=] { *selected = [name](Session& s) { return Login(s, *name); }; });

  CLI::App* context = app.add_subcommand("context", "Servers that you have logged in to");
  context->require_subcommand(1);
  context->footer("Example:\n  nerfctl context ls");
  CLI::App* ls = context->add_subcommand("ls", "List them; * is the current one");
  ls->footer("Example:\n  nerfctl context ls");
  ls->callback([=] { *selected = ListContexts; });
  auto chosen = std::make_shared<std::string>();
  CLI::App* use = context->add_subcommand("use", "Make one the current one");
  use->add_option("name", *chosen, "Its name")->required();
  use->footer("Example:\n  nerfctl context use lab");
  use->callback([=] {
    *selected = [chosen](Session& s) {
      return ChangeContext(s, *chosen, "is the current context",
                           [&](Contexts& c) { c.current = *chosen; });
    };
  });
  CLI::App* rm = context->add_subcommand("rm", "Forget one and its token");
  rm->add_option("name", *chosen, "Its name")->required();
  rm->footer("Example:\n  nerfctl context rm lab");
  rm->callback([=] {
    *selected = [chosen](Session& s) {
      return ChangeContext(s, *chosen, "is forgotten", [&](Contexts& c) {
        c.by_name.erase(*chosen);
        if (c.current == *chosen) c.current.clear();
      });
    };
  });
}

}  // namespace nerf
