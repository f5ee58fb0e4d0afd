#include "client/calls/job_watch.h"

#include <algorithm>
#include <optional>
#include <ostream>
#include <thread>

#include "client/calls/job_calls.h"
#include "client/calls/job_files.h"
#include "client/calls/server_wait.h"
#include "client/calls/session.h"
#include "client/flags/interrupt.h"
#include "client/flags/names.h"
#include "client/flags/text_format.h"
#include "client/kinds/job_printers.h"
#include "client/kinds/job_words.h"
#include "client/kinds/kind_view.h"
#include "client/show/progress_display.h"
#include "client/show/resource_printers.h"
#include "common/error_reason.h"
#include "common/mutex.h"
#include "common/process/exit_code.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "common/shell_word.h"
#include "common/sleep.h"
#include "common/status_macros.h"
#include "fmt/format.h"
#include "nerf/v1/job_service.grpc.pb.h"

namespace nerf {
namespace {

constexpr double kMaxRetryFactor = 25;
constexpr double kRetryGrowth = 1.6;

constexpr int kMaxProblemsShown = 20;

// "pose job p-7f3k2c81".
std::string NounAndId(const v1::Job& job) {
  return fmt::format("{} {}", KindViewOf(job).noun(), ShortName(job.name()));
}

// The line that reports a change of state.
std::string StateLine(const v1::Job& job) {
  std::string line = fmt::format("{} {}", NounAndId(job), StateText(job.state()));
  if (const std::string again = QueueReasonText(job); !again.empty()) line += " again: " + again;
  if (job.has_wait()) line += ", waits: " + job.wait().message();
  if (job.state() != v1::Job::PREPARING && job.state() != v1::Job::RUNNING) return line;
  if (!job.workers().empty()) line += " on " + WorkersText(job);
  if (job.attempt() < 2) return line;
  line += fmt::format(", attempt {}", job.attempt());
  // Only while PREPARING: later the newest checkpoint may be one of this attempt.
  const std::string start = KindViewOf(job).Start(job);
  if (job.state() == v1::Job::PREPARING && !start.empty()) line += ", " + start;
  return line;
}

// One watch; reconnects until the job has ended.
class JobWatcher {
 public:
  JobWatcher(Session& session, std::string name, const WatchOptions& options, v1::Job* job)
      : session_(session),
        name_(std::move(name)),
        options_(options),
        stub_(session.Stub<v1::JobService>()),
        display_(session.io(), session.flags().progress),
        job_(*job) {}

  // OK once the job has ended.
  absl::Status Run() {
    // An evaluation sends a message with each view, which may take a minute.
    const std::jthread ticker([this](const std::stop_token& stop) {
      while (SleepUnlessStopped(session_.io().tick, stop)) Tick();
    });
    const absl::Duration first_delay = session_.io().first_retry_delay;
    absl::Duration delay = first_delay;
    while (true) {
      heard_ = false;
      absl::Status status = FollowStream();
      if (status.ok() && HasEnded()) return absl::OkStatus();
      if (session_.io().interrupt->requested()) return absl::CancelledError("interrupted");
      status = CancelledAsUnavailable(std::move(status));
      if (!fetched_.ok() && !absl::IsUnavailable(status)) return status;
      const std::optional<ErrorReason> why = GetReason(status);
      if (why.has_value() && why->reason == reason::kEpochMismatch && !token_.empty()) {
        Say("the server has a new store; earlier events are lost");
        token_.clear();
        seen_in_store_ = false;
        continue;
      }
      if (absl::IsNotFound(status) && seen_in_store_) return WasDeleted();
      // If the stream ends with OK before the job does, the server is shutting down.
      const bool may_retry = (status.ok() || absl::IsUnavailable(status)) &&
                             (seen_any_ || options_.patient_from_start);
      // The only deadline of a watch is --timeout.
      if (absl::IsDeadlineExceeded(status) || session_.TimeLeft() <= absl::ZeroDuration()) {
        return TimeIsOver();
      }
      if (!may_retry) {
        if (wait_.MayTryAgain(status)) continue;
        if (session_.io().interrupt->requested()) return absl::CancelledError("interrupted");
        return status.ok() ? absl::UnavailableError(
                                 "the server ended the watch before its first "
                                 "message")
                           : status;
      }
      if (heard_) delay = first_delay;
      SayLost();
      if (!session_.Sleep(delay)) {
        return session_.io().interrupt->requested() ? absl::CancelledError("interrupted")
                                                    : TimeIsOver();
      }
      delay = std::min(delay * kRetryGrowth, first_delay * kMaxRetryFactor);
    }
  }

 private:
  void Say(const std::string& line) {
    MutexLock lock(mu_);
    display_.Say(line);
  }

  void SayLost() {
    MutexLock lock(mu_);
    if (!told_) display_.Say("connection lost; the job goes on, trying again");
    told_ = true;
  }

  // Leaves the progress of a job that has succeeded on the screen.
  bool HasEnded() {
    MutexLock lock(mu_);
    if (!IsFinal(job_.state())) return false;
    if (job_.state() == v1::Job::SUCCEEDED &&
        KindViewOf(job_).LineOf(job_, absl::ZeroDuration()).has_value()) {
      display_.Finish();
    } else {
      display_.Clear();
    }
    return true;
  }

  // Counts down what an evaluation takes.
  void Tick() {
    if (session_.flags().progress == ProgressMode::kJson) return;
    MutexLock lock(mu_);
    if (told_ || !KindViewOf(job_).CountsDown(job_)) return;
    ShowProgress(session_.io().clock->Now() - progress_came_);
  }

  void ShowProgress(absl::Duration age) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const std::optional<ProgressLine> line = KindViewOf(job_).LineOf(job_, age);
    if (line.has_value()) display_.Update(*line);
  }

  absl::Status TimeIsOver() const { return session_.TimeIsOver("before the job's end"); }

  absl::Status WasDeleted() {
    MutexLock lock(mu_);
    return WithReason(absl::NotFoundError(fmt::format("{} was deleted before its end was read here",
                                                      NounAndId(job_))),
                      reason::kResourceNotFound);
  }

  absl::Status FollowStream() {
    v1::WatchJobRequest request;
    request.set_name(name_);
    request.set_resume_token(token_);
    grpc::ClientContext context;
    NERF_ASSIGN_OR_RETURN(const std::string token, session_.token());
    PrepareCall(session_.TimeLeft(), token, &context);
    const std::stop_callback cancel(session_.stop(), [&context] { context.TryCancel(); });
    const auto reader = stub_->WatchJob(&context, request);
    v1::WatchJobResponse message;
    fetched_ = absl::OkStatus();
    while (fetched_.ok() && reader->Read(&message)) Take(message);
    if (!fetched_.ok()) context.TryCancel();
    const absl::Status status = FromGrpcStatus(reader->Finish());
    return fetched_.ok() ? status : fetched_;
  }

  void Take(const v1::WatchJobResponse& message) {
    MutexLock lock(mu_);
    if (told_) display_.Say("connected again");
    told_ = false;
    heard_ = seen_any_ = seen_in_store_ = true;
    if (!message.resume_token().empty()) token_ = message.resume_token();
    if (session_.flags().prints_events) {
      *session_.io().out << ToJson(message, /*pretty=*/false) << '\n' << std::flush;
    }
    if (!message.has_job()) return;
    const v1::Job& job = message.job();
    const bool changed =
        job_.name().empty() || job.state() != job_.state() || job.attempt() != job_.attempt();
    if (changed) {
      display_.Say(StateLine(job));
    } else if (job.has_wait() && job.wait().message() != job_.wait().message()) {
      display_.Say(fmt::format("{} waits: {}", NounAndId(job), job.wait().message()));
    }
    const KindView& kind = KindViewOf(job);
    for (const std::string& news : kind.News(message, job_)) display_.Say(news);
    if (kind.Progress(job) != kind.Progress(job_) || kind.Doing(job) != kind.Doing(job_) ||
        kind.SecondsLeft(job) != kind.SecondsLeft(job_)) {
      progress_came_ = session_.io().clock->Now();
    }
    job_ = job;
    if (preview_.HasNew(job.training_status().progress())) {
      display_.Clear();
      preview_.Follow(job.training_status().progress());
    }
    ShowProgress(absl::ZeroDuration());
    if (options_.files != nullptr) fetched_ = options_.files->Fetch(job);
  }

  Session& session_;
  const std::string name_;
  const WatchOptions options_;
  const std::unique_ptr<v1::JobService::Stub> stub_;
  ServerWait wait_{session_};  // for the first message
  PreviewFollower preview_{session_, options_.preview};
  std::string token_;
  bool seen_any_ = false;       // a message on any stream
  bool seen_in_store_ = false;  // a message from the server's current store
  bool heard_ = false;          // a message on the last stream
  absl::Status fetched_;        // of the job's files, on that stream

  Mutex mu_;  // of what the ticker reads
  ProgressDisplay display_ ABSL_GUARDED_BY(mu_);
  v1::Job& job_ ABSL_GUARDED_BY(mu_);
  SteadyTime progress_came_ ABSL_GUARDED_BY(mu_);
  bool told_ ABSL_GUARDED_BY(mu_) = false;  // the loss of the connection was reported
};

void PrintEnd(Session& session, const v1::Job& job) {
  const std::string line = KindViewOf(job).EndLine(job);
  if (session.flags().output == OutputFormat::kTable && !line.empty()) {
    *session.io().out << PlainText(line) << '\n';
  } else if (!session.flags().prints_events) {
    PrintJob(session.printer(), job);
  }
}

// Follows the job. Errors are printed; returns the exit code.
int Follow(Session& session, const std::string& name, const WatchOptions& options, v1::Job* job) {
  const absl::Status status = JobWatcher(session, name, options, job).Run();
  if (status.ok()) return kOk;
  const int exit_code = session.Fail(status);
  if (session.io().interrupt->requested() || absl::IsDeadlineExceeded(status) ||
      (options.patient_from_start && !absl::IsNotFound(status))) {
    const std::string again =
        options.files == nullptr
            ? "watch " + ShortName(name)
            : fmt::format("fetch {} --out {}", ShortName(name), ShellWord(options.files->out()));
    session.SayError(session.Runnable(PlainText(
        fmt::format("  {0} {1} keeps running; `nerfctl job {2}` follows it again, `nerfctl job "
                    "cancel {1}` stops it",
                    KindViewOf(*job).noun(), ShortName(name), again))));
  }
  return exit_code;
}

// Says what there is to say about a job that has ended. Returns the exit code.
int SayEnd(const Session& session, const v1::Job& job) {
  const KindView& kind = KindViewOf(job);
  if (job.state() == v1::Job::SUCCEEDED) {
    for (const std::string& remark : kind.Remarks(job)) {
      session.Say(session.Runnable(PlainText(remark)));
    }
    return kOk;
  }
  if (job.state() == v1::Job::CANCELLED) {
    session.SayError(PlainText(fmt::format("nerfctl: {} was cancelled", NounAndId(job))));
    return kJobFailed;
  }
  const int n_shown = std::min(job.problems_size(), kMaxProblemsShown);
  for (int i = 0; i < n_shown; ++i) session.SayError("error  " + ProblemText(job.problems(i)));
  if (job.problems_size() > n_shown) {
    session.SayError(session.Runnable(
        PlainText(fmt::format("  and {} more; `nerfctl job show {}` lists all",
                              job.problems_size() - n_shown, ShortName(job.name())))));
  }
  session.SayError(
      PlainText(fmt::format("nerfctl: {} failed: {}", NounAndId(job), FailureText(job))));
  const bool is_invalid =
      job.error().code() == static_cast<int>(absl::StatusCode::kInvalidArgument);
  return is_invalid ? kind.invalid_code() : kJobFailed;
}

}  // namespace

int AwaitJob(Session& session, const std::string& name, const WatchOptions& options, v1::Job* job) {
  const int exit_code = Follow(session, name, options, job);
  return exit_code == kOk ? SayEnd(session, *job) : exit_code;
}

int WatchJobToTheEnd(Session& session, const std::string& name, const WatchOptions& options) {
  v1::Job job;
  if (const int code = Follow(session, name, options, &job); code != kOk) return code;
  PrintEnd(session, job);
  const int exit_code = SayEnd(session, job);
  if (const std::string next = KindViewOf(job).NextCommand(job); !next.empty()) {
    session.SayNext(PlainText(next));
  }
  return exit_code;
}

int FetchJob(Session& session, const std::string& name, const std::string& out,
             bool patient_from_start) {
  JobFiles files(session, out);
  v1::Job job;
  const WatchOptions options = {.patient_from_start = patient_from_start, .files = &files};
  if (const int code = Follow(session, name, options, &job); code != kOk) return code;
  if (!files.paths().empty()) {
    PrintFiles(session.printer(), name, files.paths(), /*words=*/"");
  } else if (job.state() == v1::Job::SUCCEEDED) {
    return session.Fail(absl::NotFoundError(fmt::format("{} has no file", name)));
  }
  return SayEnd(session, job);
}

}  // namespace nerf
