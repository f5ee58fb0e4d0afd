#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "client/calls/paging.h"
#include "client/calls/resource_calls.h"
#include "client/calls/session.h"
#include "client/commands/commands.h"
#include "client/flags/expiry_text.h"
#include "client/flags/names.h"
#include "client/flags/text_format.h"
#include "client/flags/time_flag.h"
#include "client/show/printer.h"
#include "client/show/resource_printers.h"
#include "client/show/text_table.h"
#include "common/process/exit_code.h"
#include "common/usage_error.h"
#include "nerf/v1/admin_service.grpc.pb.h"

namespace nerf {
namespace {

using AdminStub = v1::AdminService::Stub;

std::string ProjectText(const std::string& project) {
  return project.empty() ? "every" : ShortName(project);
}

struct NewToken {
  std::string role = "editor", ttl, display_name;
  bool every_project = false;
};

int Create(Session& session, const NewToken& wanted) {
  v1::CreateTokenRequest request;
  v1::Token& token = *request.mutable_token();
  v1::Token::Role role = v1::Token::ROLE_UNSPECIFIED;
  v1::Token::Role_Parse(absl::AsciiStrToUpper(wanted.role), &role);
  token.set_role(role);
  token.set_display_name(wanted.display_name);
  if (!wanted.every_project && role != v1::Token::WORKER) {
    token.set_project("projects/" + session.flags().project);
  }
  if (!wanted.ttl.empty()) {
    const auto ttl = ParseTimeFlag("--ttl", wanted.ttl);
    if (!ttl.ok()) return session.FailUsage(ttl.status());
    token.mutable_expire_time()->set_seconds(
        absl::ToUnixSeconds(session.io().clock->WallNow() + *ttl));
  }
  const auto stub = session.Stub<v1::AdminService>();
  const auto made = session.Call(*stub, &AdminStub::CreateToken, request);
  if (!made.ok()) return session.Fail(made.status());
  const Printer printer = session.printer();
  if (PrintJson(printer, *made)) return kOk;
  // The secret alone: it is shown once, and scripts read it.
  printer.out << PlainText(printer.format == OutputFormat::kName ? made->name() : made->secret())
              << '\n';
  session.Say(fmt::format("{}: {} of {}; this is the only time that it is shown",
                          PlainText(ShortName(made->name())), wanted.role,
                          made->project().empty() ? "every project" : PlainText(made->project())));
  return kOk;
}

int List(Session& session, bool every_project, int limit) {
  v1::ListTokensRequest request;
  if (!every_project) request.set_project("projects/" + session.flags().project);
  const auto stub = session.Stub<v1::AdminService>();
  const auto tokens = ListPages<v1::Token>(session, *stub, &AdminStub::ListTokens, request, limit,
                                           [](auto& page) { return page.mutable_tokens(); });
  if (!tokens.ok()) return session.Fail(tokens.status());
  const Printer printer = session.printer();
  if (PrintListForPrograms(printer, *tokens)) return kOk;
  TextTable table({"ID", "ROLE", "PROJECT", "EXPIRES", "NAME"});
  for (const v1::Token& token : *tokens) {
    table.AddRow(
        {ShortName(token.name()), absl::AsciiStrToLower(v1::Token::Role_Name(token.role())),
         ProjectText(token.project()), ExpiryText(token, printer.now), token.display_name()});
  }
  table.Print(printer.out);
  return kOk;
}

int DeleteToken(Session& session, const std::string& id) {
  const std::string name = id.rfind("tokens/", 0) == 0 ? id : "tokens/" + id;
  const auto done = CallByName<v1::AdminService>(session, name, &AdminStub::DeleteToken);
  if (!done.ok()) return session.Fail(done.status());
  PrintDone(session.printer(), name, fmt::format("{} revoked", ShortName(name)));
  return kOk;
}

}  // namespace

void AddTokenCommands(CLI::App& app, Command* selected) {
  CLI::App* token = app.add_subcommand("token", "Who may use the server, for admins");
  token->require_subcommand(1);
  token->footer("Example:\n  nerfctl token create --role viewer --ttl 720h");
  auto wanted = std::make_shared<NewToken>();
  CLI::App* create = token->add_subcommand("create", "Make a token for the project and print it");
  create->add_option("--role", wanted->role, "viewer, editor, worker or admin")
      ->check(OneOf({"viewer", "editor", "worker", "admin"}))
      ->capture_default_str();
  create->add_option("--ttl", wanted->ttl, "Time until it expires; default: never")
      ->type_name("TIME");
  create->add_option("--display-name", wanted->display_name, "What it is for")->type_name("TEXT");
  create->add_flag("--every-project", wanted->every_project, "For every project");
  create->footer("Example:\n  nerfctl token create --role editor --display-name ana");
  create->callback([=] { *selected = [wanted](Session& s) { return Create(s, *wanted); }; });

  CLI::App* ls = token->add_subcommand("ls", "List the project's tokens");
  auto every = std::make_shared<bool>(false);
  ls->add_flag("--every-project", *every, "Those of every project");
  auto limit = AddLimitFlag(*ls);
  ls->footer("Example:\n  nerfctl token ls");
  ls->callback([=] { *selected = [=](Session& s) { return List(s, *every, *limit); }; });

  CLI::App* rm = token->add_subcommand("rm", "Revoke a token");
  auto id = std::make_shared<std::string>();
  rm->add_option("token", *id, "Its id")->required();
  rm->footer("Example:\n  nerfctl token rm t-7f3k2c81");
  rm->callback([=] { *selected = [id](Session& s) { return DeleteToken(s, *id); }; });
}

}  // namespace nerf
