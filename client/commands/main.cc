// nerfctl: the command line client of nerfd, for scenes, jobs, models and views.
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "client/commands/command_line.h"
#include "client/flags/interrupt.h"
#include "common/process/last_resort.h"

namespace {

std::string_view Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool LocaleIsUtf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view value = Environment(name);
    if (value.empty()) continue;
    return value.find("UTF-8") != std::string_view::npos ||
           value.find("utf8") != std::string_view::npos ||
           value.find("UTF8") != std::string_view::npos ||
           value.find("utf-8") != std::string_view::npos;
  }
  return false;
}

int Run(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  const nerf::RealClock clock;
  nerf::SystemRandom random;
  nerf::Interrupt interrupt;
  interrupt.InstallHandlers();
  nerf::Io io;
  io.out = &std::cout;
  io.err = &std::cerr;
  io.out_is_terminal = isatty(STDOUT_FILENO) == 1;
  io.err_is_terminal = isatty(STDERR_FILENO) == 1;
  winsize size = {};
  if (io.err_is_terminal && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    io.columns = size.ws_col;
  }
  io.unicode = LocaleIsUtf8();
  io.dumb_terminal = Environment("TERM").empty() || Environment("TERM") == "dumb";
  io.clock = &clock;
  io.random = &random;
  io.interrupt = &interrupt;
  return nerf::RunNerfctl(std::vector<std::string>(argv + (argc > 0), argv + argc), io);
}

}  // namespace

int main(int argc, char** argv) {
  // gRPC's own log lines repeat what the commands say. The variable shows them.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  return nerf::WithLastResort("nerfctl", [&] { return Run(argc, argv); });
}
