#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace CLI {
class App;
}

namespace nerf {

struct Io;

enum class OutputFormat { kTable, kJson, kJsonLines, kName };
enum class ProgressMode { kBar, kPlain, kJson, kNone };

// The flags that every command takes.
struct GlobalFlags {
  std::string server = "127.0.0.1:50051";
  std::string project = "default";
  OutputFormat output = OutputFormat::kTable;
  ProgressMode progress = ProgressMode::kPlain;
  bool quiet = false;
  bool no_hints = false;  // suggest no next commands
  bool color = false;     // on standard output
  // Limit of the whole command; infinite without --timeout. Each call has a limit of its own, too.
  absl::Duration timeout = absl::InfiniteDuration();
};

// The same as typed.
struct RawGlobalFlags {
  GlobalFlags flags;
  std::string output = "table";
  std::string progress = "auto";
  std::string timeout;
  bool json = false;
  bool no_color = false;
};

void AddGlobalFlags(CLI::App& app, RawGlobalFlags* raw);

// What the flags mean on this terminal. Errors: InvalidArgument that names the flag.
absl::StatusOr<GlobalFlags> ResolveGlobalFlags(const RawGlobalFlags& raw, const Io& io);

}  // namespace nerf
