#include <sys/socket.h>
#include <sys/stat.h>

#include <memory>

#include "common/clock.h"
#include "common/status_macros.h"
#include "engine/export/files/nvdb_file.h"
#include "engine/program/console/command.h"
#include "engine/program/device/device.h"
#include "engine/program/device/exception_border.h"
#include "engine/program/serve/serve_loop.h"
#include "fmt/format.h"

namespace nerf {
namespace {

struct ServeFlags {
  std::string device = "cpu";
  int threads = 0, fd = 3;
  bool json = false;
};

int RunServe(const ServeFlags& flags) {
  if (absl::Status status = CheckDevice(flags.device); !status.ok()) {
    return ReportError(status, false, true);
  }
  struct stat found = {};
  if (fstat(flags.fd, &found) != 0 || !S_ISSOCK(found.st_mode)) {
    return ReportError(
        absl::InvalidArgumentError(fmt::format(
            "file descriptor {} is not a socket; nerf-worker starts this command", flags.fd)),
        false, true);
  }
  const RealClock clock;
  ThreadPool pool(ThreadsFor(flags.threads));
  ServeOptions options;
  options.fd = flags.fd;
  if (flags.json) options.form = MessageForm::kJson;
  options.device = flags.device;
  options.writes_nanovdb = CanWriteNanoVdb().ok();
  const absl::Status status = Guarded([&] {
    NERF_ASSIGN_OR_RETURN(std::unique_ptr<RenderDevice> device,
                          NewRenderDevice(flags.device, &pool));
    const std::unique_ptr<DeviceMonitor> monitor = NewDeviceMonitor(flags.device);
    options.monitor = monitor.get();
    options.device_description = DescriptionOf(flags.device);
    return ServeLoop(options, device.get(), &pool, &clock).Run();
  });
  return status.ok() ? kOk : ReportError(status, false);
}

}  // namespace

void AddServeCommand(CLI::App* app, CommandBody* chosen) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* command = app->add_subcommand(
      "serve", "Train and render for nerf-worker, over a socket that it passes");
  command->add_option("--device", flags->device, "cpu or cuda:N")->capture_default_str();
  command->add_option("--threads", flags->threads, "threads (default: one for each core)")
      ->check(CLI::Range(0, 1024));
  command->add_option("--fd", flags->fd, "descriptor of the socket")->capture_default_str();
  command->add_flag("--json", flags->json, "messages as JSON, one a line");
  command->footer("Example:\n  nerf-engine serve --device cpu --fd 3");
  command->callback([=] { *chosen = [flags] { return RunServe(*flags); }; });
}

}  // namespace nerf
