#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "client/calls/doctor.h"
#include "client/calls/session.h"
#include "client/commands/commands.h"
#include "client/flags/text_format.h"
#include "common/counted.h"
#include "common/files/places.h"
#include "common/process/exit_code.h"
#include "common/process/local_server.h"
#include "fmt/format.h"

namespace nerf {
namespace {

const char* WordFor(CheckResult result) {
  switch (result) {
    case CheckResult::kOk:
      return "ok";
    case CheckResult::kNote:
      return "note";
    case CheckResult::kProblem:
      return "problem";
  }
  return "";
}

void PrintFindings(const Printer& printer, const std::vector<DoctorFinding>& findings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const DoctorFinding& finding : findings) {
    list.push_back({{"check", finding.check},
                    {"result", WordFor(finding.result)},
                    {"detail", finding.detail},
                    {"remedy", finding.remedy}});
  }
  if (PrintJson(printer, list)) return;
  for (const DoctorFinding& finding : findings) {
    printer.out << fmt::format("{:<8} {:<9} {}{}{}\n", WordFor(finding.result), finding.check,
                               PlainText(finding.detail), finding.remedy.empty() ? "" : ": ",
                               PlainText(finding.remedy));
  }
}

int Doctor(Session& session, DoctorOptions options) {
  std::vector<DoctorFinding> findings;
  const auto add = [&](std::vector<DoctorFinding> more) {
    findings.insert(findings.end(), more.begin(), more.end());
  };
  session.Say(fmt::format("nerfctl {} examines {}", NERF_VERSION, session.flags().server));
  add(ExamineServer(session));
  const bool is_local = IsLoopbackAddress(session.flags().server);
  add(ExamineBinaries(options, is_local));
  const bool is_given = !options.data_dir.empty();
  if (!is_given) {
    options.data_dir = FindLocalServer(session.flags().server).value_or(DefaultDataDir());
  }
  if (is_local || is_given) add(ExamineDataDir(options));
  PrintFindings(session.printer(), findings);

  int exit_code = kOk;
  size_t n_problems = 0;
  for (const DoctorFinding& finding : findings) {
    if (finding.result != CheckResult::kProblem) continue;
    ++n_problems;
    if (finding.check == "server") exit_code = kUnreachable;
    if (exit_code == kOk) exit_code = kWrongState;
  }
  const auto n_notes = static_cast<size_t>(
      std::count_if(findings.begin(), findings.end(), [](const DoctorFinding& finding) {
        return finding.result == CheckResult::kNote && !finding.remedy.empty();
      }));
  session.Say((n_problems == 0 ? "no problems" : Counted(n_problems, "problem")) +
              (n_notes == 0 ? "" : ", " + Counted(n_notes, "note")));
  return exit_code;
}

}  // namespace

void AddDoctorCommand(CLI::App& app, Command* selected) {
  CLI::App* doctor = app.add_subcommand("doctor", "Say what is wrong with a set-up");
  auto options = std::make_shared<DoctorOptions>();
  options->binary_dir = OwnBinaryDir();
  doctor
      ->add_option("--data-dir", options->data_dir,
                   "Data folder of nerfd; default: that of your nerfd at --server, else the usual "
                   "one")
      ->type_name("DIR");
  doctor->add_option("--bin-dir", options->binary_dir, "Folder of the other binaries")
      ->type_name("DIR")
      ->capture_default_str();
  doctor->footer("Example:\n  nerfctl doctor --server 127.0.0.1:50051");
  doctor->callback([=] { *selected = [options](Session& s) { return Doctor(s, *options); }; });
}

}  // namespace nerf
