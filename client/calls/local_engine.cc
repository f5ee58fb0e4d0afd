#include "client/calls/local_engine.h"

#include "client/calls/session.h"
#include "client/flags/interrupt.h"
#include "client/flags/text_format.h"
#include "common/process/child_process.h"
#include "common/process/exit_code.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// For nerf-engine to end its own programs and to remove its files.
constexpr absl::Duration kStopGrace = absl::Seconds(10);

}  // namespace

int RunLocalEngine(Session& session, const LocalEngineRun& run) {
  ChildProcessSpec spec;
  spec.arguments = run.arguments;
  spec.time_limit = session.TimeLeft();
  spec.stop_grace = kStopGrace;
  const Interrupt::PatientScope until_it_has_cleaned_up;
  const auto end = RunChildProcess(
      spec,
      [&](std::string_view line) {
        // After a stop nerfctl says the rest.
        const bool is_stopping =
            session.stop().stop_requested() || session.TimeLeft() <= absl::ZeroDuration();
        if (is_stopping || !run.is_shown(line)) return;
        const std::string text = PlainText(std::string(line));
        if (run.is_result) {
          session.printer().out << text << '\n';
        } else {
          session.Say(text);
        }
      },
      nullptr, session.stop());
  if (!end.ok()) return session.Fail(end.status());
  switch (end->kind) {
    case ChildProcessEnd::Kind::kExited:
      if (end->code != kOk) session.SayError("nerfctl: " + run.failure);
      return end->code;
    case ChildProcessEnd::Kind::kStopped:
      return session.Fail(absl::CancelledError("interrupted"));
    case ChildProcessEnd::Kind::kTimeLimit:
      return session.Fail(session.TimeIsOver(run.unfinished));
    case ChildProcessEnd::Kind::kSignaled:
      break;
  }
  session.SayError(
      fmt::format("nerfctl: {} was killed by signal {}", spec.arguments[0], end->code));
  return kBug;
}

}  // namespace nerf
