#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client/calls/paging.h"
#include "client/calls/resource_calls.h"
#include "client/calls/session.h"
#include "client/calls/share_start.h"
#include "client/commands/commands.h"
#include "client/flags/expiry_text.h"
#include "client/flags/names.h"
#include "client/flags/text_format.h"
#include "client/flags/time_flag.h"
#include "client/show/printer.h"
#include "client/show/resource_printers.h"
#include "client/show/text_table.h"
#include "common/process/exit_code.h"
#include "common/process/local_server.h"
#include "common/status_macros.h"
#include "nerf/v1/model_service.grpc.pb.h"

namespace nerf {
namespace {

using ModelStub = v1::ModelService::Stub;
constexpr std::string_view kShares = "/shares/";

// "mic/sh-1" -> projects/{project}/models/mic/shares/sh-1; a full name stays as it is.
absl::StatusOr<std::string> ShareName(std::string_view text, std::string_view project) {
  const size_t middle = text.find(kShares);
  const size_t slash = text.rfind('/');
  if (slash == std::string_view::npos) {
    return absl::InvalidArgumentError("a share is named MODEL/SHARE, such as mic/sh-7f3k2c81");
  }
  const std::string_view model = text.substr(0, middle == std::string_view::npos ? slash : middle);
  NERF_ASSIGN_OR_RETURN(const std::string name, ExpandName(ResourceKind::kModel, model, project));
  return fmt::format("{}{}{}", name, kShares, text.substr(slash + 1));
}

struct NewShare {
  std::string model, ttl = "168h", display_name, page, export_job;
};

// The page's address; empty where it is not known.
std::string PageOf(const Session& session, std::string page) {
  if (page.empty()) return FindSharedPage(session.flags().server);
  if (page.find('#') != std::string::npos) page.erase(page.find('#'));
  if (!page.ends_with('/')) page += '/';
  return page;
}

// "127.0.0.1:8080" of "http://127.0.0.1:8080/".
std::string HostOf(std::string_view page) {
  constexpr std::string_view kSlashes = "://";
  const size_t scheme = page.find(kSlashes);
  if (scheme == page.npos) return "";
  page.remove_prefix(scheme + kSlashes.size());
  const std::string host(page.substr(0, page.find('/')));
  return host.find(':') == host.npos ? host + ":" : host;
}

int Create(Session& session, const NewShare& wanted) {
  v1::CreateShareRequest request;
  const auto model = ExpandName(ResourceKind::kModel, wanted.model, session.flags().project);
  if (!model.ok()) return session.FailUsage(model.status());
  request.set_parent(*model);
  request.mutable_share()->set_display_name(wanted.display_name);
  if (!wanted.export_job.empty()) {
    const auto job = ExpandName(ResourceKind::kJob, wanted.export_job, session.flags().project);
    if (!job.ok()) return session.FailUsage(job.status());
    request.mutable_share()->set_export_job(*job);
  }
  if (wanted.ttl != "never") {
    const auto ttl = ParseTimeFlag("--ttl", wanted.ttl);
    if (!ttl.ok()) return session.FailUsage(ttl.status());
    request.mutable_share()->mutable_expire_time()->set_seconds(
        absl::ToUnixSeconds(session.io().clock->WallNow() + *ttl));
  }
  FindStart(session, *model, request.mutable_share());
  const auto stub = session.Stub<v1::ModelService>();
  const auto made = session.Call(*stub, &ModelStub::CreateShare, request);
  if (!made.ok()) return session.Fail(made.status());
  const Printer printer = session.printer();
  if (PrintForPrograms(printer, *made)) return kOk;
  // The link alone: it is shown once, and scripts read it.
  const std::string page = PageOf(session, wanted.page);
  printer.out << PlainText(page) << "#share=" << PlainText(made->secret()) << '\n';
  session.Say(fmt::format("{}: expires {}; this is the only time that it is shown{}",
                          PlainText(ShortName(made->name())), ExpiryText(*made, printer.now),
                          page.empty() ? "; put the page's address before it" : ""));
  if (IsLoopbackAddress(HostOf(page))) {
    session.Say(
        "  it opens on this computer alone: name the page's address for others with --page, or "
        "for all links with `nerfd --web-origin`");
  }
  return kOk;
}

int List(Session& session, const std::string& text, int limit) {
  const auto model = ExpandName(ResourceKind::kModel, text, session.flags().project);
  if (!model.ok()) return session.FailUsage(model.status());
  v1::ListSharesRequest request;
  request.set_parent(*model);
  const auto stub = session.Stub<v1::ModelService>();
  const auto shares = ListPages<v1::Share>(session, *stub, &ModelStub::ListShares, request, limit,
                                           [](auto& page) { return page.mutable_shares(); });
  if (!shares.ok()) return session.Fail(shares.status());
  const Printer printer = session.printer();
  if (PrintListForPrograms(printer, *shares)) return kOk;
  TextTable table({"ID", "EXPIRES", "NAME"});
  for (const v1::Share& share : *shares) {
    table.AddRow({fmt::format("{}/{}", ShortName(*model), ShortName(share.name())),
                  ExpiryText(share, printer.now), share.display_name()});
  }
  table.Print(printer.out);
  return kOk;
}

int RevokeShare(Session& session, const std::string& text) {
  const auto name = ShareName(text, session.flags().project);
  if (!name.ok()) return session.FailUsage(name.status());
  const auto done = CallByName<v1::ModelService>(session, *name, &ModelStub::RevokeShare);
  if (!done.ok()) return session.Fail(done.status());
  PrintDone(session.printer(), *name, fmt::format("{} revoked", ShortName(*name)));
  return kOk;
}

}  // namespace

void AddShareCommands(CLI::App& app, Command* selected) {
  CLI::App* share = app.add_subcommand("share", "Links that show one model");
  share->require_subcommand(1);
  share->footer("Example:\n  nerfctl share create mic");
  auto wanted = std::make_shared<NewShare>();
  CLI::App* create = share->add_subcommand("create", "Make a link to a model and print it");
  create->add_option("model", wanted->model, "Name of the model")->required();
  create->add_option("--ttl", wanted->ttl, "Time until it expires, or never")
      ->type_name("TIME")
      ->capture_default_str();
  create->add_option("--display-name", wanted->display_name, "Who it is for")->type_name("TEXT");
  create->add_option("--page", wanted->page, "Address of the page; default: the local nerfd's")
      ->type_name("URL");
  create
      ->add_option("--export-job", wanted->export_job,
                   "Export job of this model whose files may be downloaded by the link")
      ->type_name("JOB");
  create->footer(
      "Examples:\n"
      "  nerfctl share create mic --ttl 24h\n"
      "  nerfctl share create mic --page https://nerf.example.com/");
  create->callback([=] { *selected = [wanted](Session& s) { return Create(s, *wanted); }; });

  CLI::App* ls = share->add_subcommand("ls", "List the links to a model");
  auto listed = std::make_shared<std::string>();
  ls->add_option("model", *listed, "Name of the model")->required();
  auto limit = AddLimitFlag(*ls);
  ls->footer("Example:\n  nerfctl share ls mic");
  ls->callback([=] { *selected = [=](Session& s) { return List(s, *listed, *limit); }; });

  CLI::App* rm = share->add_subcommand("rm", "Revoke a link");
  auto removed = std::make_shared<std::string>();
  rm->add_option("share", *removed, "MODEL/SHARE")->required();
  rm->footer("Example:\n  nerfctl share rm mic/sh-7f3k2c81");
  rm->callback([=] { *selected = [removed](Session& s) { return RevokeShare(s, *removed); }; });
}

}  // namespace nerf
