#include "client/calls/job_watch.h"

#include <algorithm>
#include <optional>
#include <ostream>
#include <thread>

#include "client/calls/server_wait.h"
#include "client/calls/session.h"
#include "client/flags/interrupt.h"
#include "client/flags/names.h"
#include "client/flags/text_format.h"
#include "client/show/job_progress.h"
#include "client/show/job_words.h"
#include "client/show/progress_display.h"
#include "client/show/resource_printers.h"
#include "common/error_reason.h"
#include "common/exit_code.h"
#include "common/mutex.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "common/sleep.h"
#include "common/status_macros.h"
#include "engine/config/psnr_advice.h"
#include "fmt/format.h"
#include "nerf/v1/training_service.grpc.pb.h"

namespace nerf {
namespace {

constexpr double kMaxRetryFactor = 25;
constexpr double kRetryGrowth = 1.6;

// The line that reports a change of state.
std::string StateLine(const v1::TrainingJob& job) {
  const std::string id = ShortName(job.name());
  std::string line = fmt::format("job {} {}", id, StateText(job.state()));
  if (const std::string again = QueueReasonText(job); !again.empty()) line += " again: " + again;
  if (job.has_wait()) line += ", waits: " + job.wait().message();
  const bool on_worker =
      job.state() == v1::TrainingJob::PREPARING || job.state() == v1::TrainingJob::RUNNING;
  if (on_worker && !job.worker().empty()) line += fmt::format(" on {}", ShortName(job.worker()));
  if (on_worker && job.attempt() > 1) line += fmt::format(", attempt {}", job.attempt());
  // Only while PREPARING: later the newest checkpoint may be one of this attempt.
  if (job.state() == v1::TrainingJob::PREPARING && job.attempt() > 1) {
    line += fmt::format(", {}", StartText(job));
  }
  return line;
}

uint32_t NewestStep(const v1::TrainingJob& job) {
  return job.checkpoints_size() == 0 ? 0 : job.checkpoints(job.checkpoints_size() - 1).step();
}

// One watch; reconnects until the job has ended.
class JobWatcher {
 public:
  JobWatcher(Session& session, std::string name, const WatchOptions& options)
      : session_(session),
        name_(std::move(name)),
        options_(options),
        stub_(session.Stub<v1::TrainingService>()),
        display_(session.io(), session.flags().progress) {}

  absl::StatusOr<v1::TrainingJob> Run() {
    // An evaluation sends a message with each view, which may take a minute.
    const std::jthread ticker([this](const std::stop_token& stop) {
      while (SleepUnlessStopped(session_.io().tick, stop)) Tick();
    });
    const absl::Duration first_delay = session_.io().first_retry_delay;
    absl::Duration delay = first_delay;
    while (true) {
      heard_ = false;
      absl::Status status = FollowStream();
      if (status.ok()) {
        if (const std::optional<v1::TrainingJob> ended = Ended(); ended.has_value()) return *ended;
      }
      if (session_.io().interrupt->requested()) return absl::CancelledError("interrupted");
      status = CancelledAsUnavailable(std::move(status));
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

  // The job once it has ended; leaves its progress on the screen.
  std::optional<v1::TrainingJob> Ended() {
    MutexLock lock(mu_);
    if (!IsFinal(job_.state())) return std::nullopt;
    if (job_.state() == v1::TrainingJob::SUCCEEDED) {
      display_.Finish();
    } else {
      display_.Clear();
    }
    return job_;
  }

  // Counts down what an evaluation takes.
  void Tick() {
    if (session_.flags().progress == ProgressMode::kJson) return;
    MutexLock lock(mu_);
    if (told_ || !IsEvaluating(job_)) return;
    display_.Update(ProgressOf(job_, session_.io().clock->Now() - progress_came_));
  }

  absl::Status TimeIsOver() const { return session_.TimeIsOver("before the job's end"); }

  absl::Status WasDeleted() const {
    return WithReason(absl::NotFoundError(fmt::format(
                          "job {} was deleted before its end was read here", ShortName(name_))),
                      reason::kResourceNotFound);
  }

  absl::Status FollowStream() {
    v1::WatchTrainingJobRequest request;
    request.set_name(name_);
    request.set_resume_token(token_);
    grpc::ClientContext context;
    NERF_ASSIGN_OR_RETURN(const std::string token, session_.token());
    PrepareCall(session_.TimeLeft(), token, &context);
    const std::stop_callback cancel(session_.stop(), [&context] { context.TryCancel(); });
    const auto reader = stub_->WatchTrainingJob(&context, request);
    v1::WatchTrainingJobResponse message;
    while (reader->Read(&message)) Take(message);
    return FromGrpcStatus(reader->Finish());
  }

  // What an attempt says once: sizes of pictures, and why its evaluation will take long.
  void SayNews(const v1::TrainingJob& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (job.state() != v1::TrainingJob::RUNNING) return;
    if (!said_pictures_ && ArePicturesReduced(job)) {
      display_.Say("pictures " + PicturesText(job));
      said_pictures_ = true;
    }
    if (said_slow_ || !IsEvaluating(job)) return;
    const double seconds = job.progress().eta_seconds();
    const std::string reason = SlownessOf(job, absl::Seconds(seconds));
    if (reason.empty()) return;
    display_.Say(fmt::format("{}; the test views take about {}", reason, FormatClock(seconds)));
    said_slow_ = true;
  }

  void Take(const v1::WatchTrainingJobResponse& message) {
    MutexLock lock(mu_);
    if (told_) display_.Say("connected again");
    told_ = false;
    heard_ = seen_any_ = seen_in_store_ = true;
    if (!message.resume_token().empty()) token_ = message.resume_token();
    if (session_.flags().prints_events) {
      *session_.io().out << ToJson(message, /*pretty=*/false) << '\n' << std::flush;
    }
    if (!message.has_training_job()) return;
    const v1::TrainingJob& job = message.training_job();
    const bool changed =
        job_.name().empty() || job.state() != job_.state() || job.attempt() != job_.attempt();
    if (changed) {
      display_.Say(StateLine(job));
    } else if (job.has_wait() && job.wait().message() != job_.wait().message()) {
      display_.Say(fmt::format("job {} waits: {}", ShortName(job.name()), job.wait().message()));
    }
    if (message.kind() == v1::WatchTrainingJobResponse::CHECKPOINT_COMMITTED &&
        NewestStep(job) > NewestStep(job_)) {  // not retired since
      const v1::Checkpoint& checkpoint = job.checkpoints(job.checkpoints_size() - 1);
      display_.Say(fmt::format("checkpoint {}", ShortName(checkpoint.name())));
    }
    SayNews(job);
    const v1::Progress &now = job.progress(), &before = job_.progress();
    if (now.step() != before.step() || now.evaluated_views() != before.evaluated_views() ||
        now.eta_seconds() != before.eta_seconds()) {
      progress_came_ = session_.io().clock->Now();
    }
    job_ = job;
    if (preview_.HasNew(job.progress())) {
      display_.Clear();
      preview_.Follow(job.progress());
    }
    if (job.has_progress() &&
        (!IsFinal(job.state()) || job.state() == v1::TrainingJob::SUCCEEDED)) {
      display_.Update(ProgressOf(job));
    }
  }

  Session& session_;
  const std::string name_;
  const WatchOptions options_;
  const std::unique_ptr<v1::TrainingService::Stub> stub_;
  ServerWait wait_{session_};  // for the first message
  PreviewFollower preview_{session_, options_.preview};
  std::string token_;
  bool seen_any_ = false;       // a message on any stream
  bool seen_in_store_ = false;  // a message from the server's current store
  bool heard_ = false;          // a message on the last stream

  Mutex mu_;  // of what the ticker reads
  ProgressDisplay display_ ABSL_GUARDED_BY(mu_);
  v1::TrainingJob job_ ABSL_GUARDED_BY(mu_);
  SteadyTime progress_came_ ABSL_GUARDED_BY(mu_);
  bool told_ ABSL_GUARDED_BY(mu_) = false;  // the loss of the connection was reported
  bool said_pictures_ ABSL_GUARDED_BY(mu_) = false;
  bool said_slow_ ABSL_GUARDED_BY(mu_) = false;
};

void PrintEnd(Session& session, const v1::TrainingJob& job) {
  const std::string id = ShortName(job.name());
  if (session.flags().output == OutputFormat::kTable) {
    std::string line =
        fmt::format("{}  {}  step {}", StateText(job.state()), id, job.progress().step());
    if (const std::string psnr = PsnrText(job); !psnr.empty()) line += "  " + psnr;
    if (job.progress().seconds() > 0) {
      line += fmt::format("  {} of training", FormatClock(job.progress().seconds()));
    }
    *session.io().out << PlainText(line) << '\n';
  } else if (!session.flags().prints_events) {
    PrintJob(session.printer(), job);
  }
}

void SayIfLow(const Session& session, const v1::TrainingJob& job) {
  const TrainedQuality quality = {
      .psnr = job.final_psnr(),
      .psnr_train = job.progress().psnr_train(),
      .samples = job.progress().samples(),
      .n_train_views = 0,  // the job does not say
      .check_command = session.Runnable("nerfctl scene check " + ShortName(job.scene()))};
  for (const std::string& line : LowPsnrAdvice(quality)) session.Say(line);
}

}  // namespace

absl::StatusOr<v1::TrainingJob> WatchJob(Session& session, const std::string& name,
                                         const WatchOptions& options) {
  return JobWatcher(session, name, options).Run();
}

int WatchJobToTheEnd(Session& session, const std::string& name, const WatchOptions& options) {
  const absl::StatusOr<v1::TrainingJob> job = WatchJob(session, name, options);
  const std::string id = ShortName(name);
  if (!job.ok()) {
    const int exit_code = session.Fail(job.status());
    if (session.io().interrupt->requested() || absl::IsDeadlineExceeded(job.status()) ||
        (options.patient_from_start && !absl::IsNotFound(job.status()))) {
      session.SayError(session.Runnable(
          fmt::format("  job {0} keeps running; `nerfctl job watch {0}` follows it again, `nerfctl "
                      "job cancel {0}` stops it",
                      id)));
    }
    return exit_code;
  }
  PrintEnd(session, *job);
  if (job->state() == v1::TrainingJob::SUCCEEDED) {
    if (job->has_final_psnr()) SayIfLow(session, *job);
    session.SayNext(fmt::format(
        "nerfctl render --job {0} --out {0}-views   (nerfctl model promote {0} keeps it)", id));
    return kOk;
  }
  if (job->state() == v1::TrainingJob::FAILED) {
    for (const v1::SceneProblem& problem : job->problems()) {
      session.SayError("error  " + ProblemText(problem));
    }
    session.SayError(fmt::format("nerfctl: job {} failed: {}", id, PlainText(FailureText(*job))));
  } else {
    session.SayError(fmt::format("nerfctl: job {} was cancelled", id));
    session.SayNext(fmt::format(
        "nerfctl job retry {} --watch   ({})", id,
        job->checkpoints_size() > 0 ? "trains on from its last checkpoint" : "begins anew"));
  }
  return kJobFailed;
}

}  // namespace nerf
