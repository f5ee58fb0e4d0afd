#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "client/calls/paging.h"
#include "client/calls/session.h"
#include "client/commands/commands.h"
#include "client/show/resource_printers.h"
#include "common/process/exit_code.h"
#include "nerf/v1/admin_service.grpc.pb.h"

namespace nerf {
namespace {

int ListWorkers(Session& session, int limit) {
  const auto stub = session.Stub<v1::AdminService>();
  const auto workers = ListPages<v1::Worker>(session, *stub, &v1::AdminService::Stub::ListWorkers,
                                             v1::ListWorkersRequest(), limit,
                                             [](auto& page) { return page.mutable_workers(); });
  if (!workers.ok()) return session.Fail(workers.status());
  PrintWorkers(session.printer(), *workers);
  return kOk;
}

}  // namespace

void AddWorkerCommands(CLI::App& app, Command* selected) {
  CLI::App* worker = app.add_subcommand("worker", "Processes that train and render");
  worker->require_subcommand(1);
  worker->footer("Example:\n  nerfctl worker ls");
  CLI::App* ls = worker->add_subcommand("ls", "List workers");
  auto limit = AddLimitFlag(*ls);
  ls->footer("Example:\n  nerfctl worker ls --json");
  ls->callback([=] { *selected = [limit](Session& s) { return ListWorkers(s, *limit); }; });
}

}  // namespace nerf
