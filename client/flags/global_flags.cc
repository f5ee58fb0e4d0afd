#include "client/flags/global_flags.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdlib>
#include <utility>
#include <vector>

#include "client/flags/access.h"
#include "client/flags/io.h"
#include "client/flags/names.h"
#include "client/flags/time_flag.h"
#include "common/edit_distance.h"
#include "common/problems.h"
#include "common/process/server_address.h"
#include "common/status_macros.h"
#include "fmt/format.h"

namespace nerf {
namespace {

bool IsSetInEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

// The value of the word; InvalidArgument that lists the words otherwise.
template <typename Value>
absl::StatusOr<Value> ParseWord(std::string_view flag, const std::string& word,
                                const std::vector<std::pair<std::string, Value>>& words) {
  std::vector<std::string_view> known;
  for (const auto& [name, value] : words) {
    if (name == word) return value;
    known.push_back(name);
  }
  return absl::InvalidArgumentError(fmt::format("{}: {}", flag, NotOneOf(word, known)));
}

ProgressMode AutomaticProgress(const GlobalFlags& flags, const Io& io) {
  if (flags.quiet) return ProgressMode::kNone;
  return io.err_is_terminal && !io.dumb_terminal ? ProgressMode::kBar : ProgressMode::kPlain;
}

}  // namespace

void AddGlobalFlags(CLI::App& app, RawGlobalFlags* raw) {
  raw->server_option = app.add_option("--server", raw->flags.server,
                                      "Address of nerfd; of replicas: IP:PORT,IP:PORT")
                           ->type_name("HOST:PORT")
                           ->capture_default_str();
  app.add_option("--context", raw->flags.context, "Server of `nerfctl login` to use")
      ->type_name("NAME");
  app.add_option("--token-file", raw->flags.token_file,
                 "File with the token to show; default: the token of this user's nerfd")
      ->type_name("FILE");
  app.add_option("--ca", raw->flags.tls.ca, "Use TLS, and trust this CA: a file in PEM, or system")
      ->type_name("FILE");
  app.add_option("--tls-cert", raw->flags.tls.cert, "Certificate to show to the server")
      ->type_name("FILE");
  app.add_option("--tls-key", raw->flags.tls.key, "Key of that certificate")->type_name("FILE");
  app.add_flag("--insecure", raw->flags.insecure,
               "Send the token without TLS to another machine, too");
  raw->project_option =
      app.add_option("--project", raw->flags.project, "Project that short ids belong to")
          ->type_name("ID")
          ->capture_default_str();
  CLI::Option* output =
      app.add_option("-o,--output", raw->output,
                     "Form of the result: table, json, jsonl or name; with\n--progress json it is "
                     "jsonl")
          ->type_name("FORM")
          ->capture_default_str();
  app.add_flag("--json", raw->json, "Same as --output json")->excludes(output);
  output->excludes(app.get_option("--json"));
  raw->output_option = output;
  app.add_flag("-q,--quiet", raw->flags.quiet, "Print only results and errors");
  app.add_flag("--no-hints", raw->flags.no_hints, "Suggest no next commands");
  app.add_flag("--no-color", raw->no_color, "No colors (also NO_COLOR and TERM=dumb)");
  app.add_option("--progress", raw->progress, "How progress is shown: auto, bar, plain, json, none")
      ->type_name("MODE")
      ->capture_default_str();
  app.add_option("--timeout", raw->timeout, "Give up after this long, such as 90s or 5m")
      ->type_name("TIME");
}

absl::StatusOr<GlobalFlags> ResolveGlobalFlags(const RawGlobalFlags& raw, const Io& io) {
  GlobalFlags flags = raw.flags;
  Problems problems;
  problems.AddOrAssign(ParseWord<OutputFormat>("--output", raw.json ? "json" : raw.output,
                                               {{"table", OutputFormat::kTable},
                                                {"json", OutputFormat::kJson},
                                                {"jsonl", OutputFormat::kJsonLines},
                                                {"name", OutputFormat::kName}}),
                       &flags.output);
  problems.AddOrAssign(ParseWord<ProgressMode>("--progress", raw.progress,
                                               {{"auto", AutomaticProgress(flags, io)},
                                                {"bar", ProgressMode::kBar},
                                                {"plain", ProgressMode::kPlain},
                                                {"json", ProgressMode::kJson},
                                                {"none", ProgressMode::kNone}}),
                       &flags.progress);
  flags.prints_events = flags.output == OutputFormat::kJsonLines;
  const bool output_is_given = raw.json || raw.output_option->count() > 0;
  if (flags.progress == ProgressMode::kJson && !output_is_given) {
    flags.output = OutputFormat::kJsonLines;
  }
  if (!raw.timeout.empty()) {
    problems.AddOrAssign(ParseTimeFlag("--timeout", raw.timeout), &flags.timeout);
  }
  flags.color =
      io.out_is_terminal && !io.dumb_terminal && !raw.no_color && !IsSetInEnvironment("NO_COLOR");
  flags.project_is_given = raw.project_option->count() > 0;
  problems.Add(ApplyContext(raw.server_option->count() > 0, &flags));
  problems.Add(CheckServerAddress(flags.server));
  problems.Add(ProjectName(flags.project).status());
  NERF_RETURN_IF_ERROR(problems.Result());
  return flags;
}

}  // namespace nerf
