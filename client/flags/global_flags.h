#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/tls.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace nerf {

struct Io;

enum class OutputFormat { kTable, kJson, kJsonLines, kName };
enum class ProgressMode { kBar, kPlain, kJson, kNone };

// The flags that every command takes.
struct GlobalFlags {
  std::string server = "127.0.0.1:50051";
  std::string project = "default";
  bool project_is_given = false;    // by --project or its variable
  std::string command = "nerfctl";  // the command that was chosen: "nerfctl job show"
  std::string context;              // as typed; ApplyContext fills in what it holds
  std::string token_file;           // empty: see ResolveToken
  std::string context_token;        // of the context
  TlsFiles tls;                     // without any: no TLS
  bool insecure = false;            // send the token without TLS beyond this machine, too
  OutputFormat output = OutputFormat::kTable;
  bool prints_events = false;  // a watch prints each event: --output jsonl was asked for
  ProgressMode progress = ProgressMode::kPlain;
  bool quiet = false;
  bool no_hints = false;  // suggest no next commands
  // The flags that choose server and project, as typed ("--server x:1"): suggested commands repeat
  // them. What the environment sets need not be repeated.
  std::vector<std::string> typed;
  bool color = false;  // on standard output
  // Limit of the whole command; infinite without --timeout. Each call has a limit of its own, too.
  absl::Duration timeout = absl::InfiniteDuration();
};

// The global flags as typed, before ResolveGlobalFlags.
struct RawGlobalFlags {
  GlobalFlags flags;
  std::string output = "table";
  std::string progress = "auto";
  std::string timeout;
  bool json = false;
  bool no_color = false;
  // --progress json replaces it unless it was given.
  const CLI::Option* output_option = nullptr;
  // A context replaces them unless they were given.
  const CLI::Option* server_option = nullptr;
  const CLI::Option* project_option = nullptr;
};

void AddGlobalFlags(CLI::App& app, RawGlobalFlags* raw);

// What the flags mean on this terminal. Errors: InvalidArgument that lists every wrong flag.
absl::StatusOr<GlobalFlags> ResolveGlobalFlags(const RawGlobalFlags& raw, const Io& io);

}  // namespace nerf
