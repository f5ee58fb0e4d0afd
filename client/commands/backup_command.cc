#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>

#include "client/calls/session.h"
#include "client/commands/commands.h"
#include "client/flags/names.h"
#include "client/flags/text_format.h"
#include "common/process/exit_code.h"
#include "common/status_macros.h"
#include "fmt/format.h"
#include "nerf/v1/admin_service.grpc.pb.h"

namespace nerf {
namespace {

int Backup(Session& session, const std::string& id) {
  if (!id.empty()) {
    if (absl::Status status = CheckResourceId("--id", id); !status.ok()) {
      return session.FailUsage(status);
    }
  }
  v1::BackupStoreRequest request;
  request.set_backup_id(id);
  const auto stub = session.Stub<v1::AdminService>();
  const auto backup = session.Call(*stub, &v1::AdminService::Stub::BackupStore, request);
  if (!backup.ok()) return session.Fail(backup.status());
  const Printer printer = session.printer();
  if (PrintJson(printer, *backup)) return kOk;
  if (printer.format == OutputFormat::kName) {
    printer.out << PlainText(backup->path()) << '\n';
    return kOk;
  }
  printer.out << fmt::format("{}  ({} files, {})\n", PlainText(backup->path()), backup->blobs(),
                             FormatBytes(backup->blob_bytes()));
  return kOk;
}

}  // namespace

void AddBackupCommand(CLI::App& app, Command* selected) {
  CLI::App* backup =
      app.add_subcommand("backup", "Copy the server's store into a folder on its machine");
  auto id = std::make_shared<std::string>();
  backup->add_option("--id", *id, "Name of the backup (default: the time)")->type_name("ID");
  backup->footer("Example:\n  nerfctl backup --id before-upgrade");
  backup->callback([=] { *selected = [=](Session& s) { return Backup(s, *id); }; });
}

}  // namespace nerf
