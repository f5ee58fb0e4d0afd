#include "client/calls/job_create.h"

#include "client/calls/job_calls.h"
#include "client/calls/session.h"
#include "client/flags/names.h"
#include "client/flags/text_format.h"
#include "client/kinds/job_words.h"
#include "client/show/resource_printers.h"
#include "common/problems.h"
#include "common/process/exit_code.h"
#include "fmt/format.h"

namespace nerf {

namespace {

// Sends a request that is only validated. If no worker is connected, asks again for a moment: the
// server may have just started.
absl::StatusOr<v1::Job> Validate(Session& session, const v1::CreateJobRequest& request) {
  const Io& io = session.io();
  const SteadyTime begin = io.clock->Now();
  while (true) {
    const absl::StatusOr<v1::Job> job = CreateJob(session, request);
    const bool may_come = job.ok() && job->wait().reason() == "NO_WORKER" &&
                          io.clock->Now() - begin < io.worker_patience;
    if (!may_come || !session.Sleep(io.first_retry_delay)) return job;
  }
}

// Warns early if no connected worker can take the job. Busy workers need no warning.
void WarnOfWait(Session& session, const v1::Job& job) {
  const std::string& reason = job.wait().reason();
  if (!job.has_wait() || reason == "WORKERS_BUSY" || reason == "PARTS" || reason == "POSES") {
    return;
  }
  session.Say(PlainText(fmt::format("warning: the job will wait: {}", job.wait().message())));
}

// Says what a job starts from where the server chose it.
void SayStart(Session& session, const v1::Job& job) {
  const std::string& reason = job.training_status().init_reason();
  if (reason.empty()) return;
  const v1::Init& init = job.training_status().effective_config().init();
  session.Say(PlainText(init.model().empty() && init.checkpoint().empty()
                            ? fmt::format("starts {}", reason)
                            : fmt::format("starts from {}: {}",
                                          init.model().empty() ? init.checkpoint()
                                                               : "model " + ShortName(init.model()),
                                          reason)));
}

}  // namespace

int WithJobRequest(Session& session, const JobFlags& flags, const absl::Status& of_command,
                   const std::function<int(v1::CreateJobRequest& request)>& create) {
  if (flags.help_settings) {
    const absl::Status printed = PrintSettings(flags, session.printer());
    return printed.ok() ? kOk : session.FailUsage(printed);
  }
  Problems problems;
  v1::CreateJobRequest request;
  problems.AddOrAssign(BuildJobRequest(flags, session.flags().project, *session.io().random),
                       &request);
  problems.Add(SetDeadlines(flags, session.io().clock->WallNow(), request.mutable_job()));
  problems.Add(of_command);
  if (!problems.empty()) return session.FailUsage(problems.Result());
  return create(request);
}

absl::Status AskBeforeUpload(Session& session, v1::CreateJobRequest request, bool may_be_repeated) {
  request.set_validate_only(true);
  request.clear_request_id();  // the id belongs to the request with its scene
  const absl::StatusOr<v1::Job> job = Validate(session, request);
  if (job.ok()) {
    WarnOfWait(session, *job);
    return absl::OkStatus();
  }
  return may_be_repeated && absl::IsAlreadyExists(job.status()) ? absl::OkStatus() : job.status();
}

int SubmitJob(Session& session, const v1::CreateJobRequest& request,
              const std::optional<WatchOptions>& watch,
              const std::function<int(const v1::Job& job)>& before_watch) {
  const absl::StatusOr<v1::Job> job =
      request.validate_only() ? Validate(session, request) : CreateJob(session, request);
  if (!job.ok()) return session.Fail(job.status());
  const Printer printer = session.printer();
  if (request.validate_only()) {
    WarnOfWait(session, *job);
    SayStart(session, *job);
    if (!PrintJson(printer, *job)) {
      PrintDone(printer, job->name(), "valid; nothing was created");
    }
    return kOk;
  }
  const std::string id = ShortName(job->name());
  if (watch.has_value()) {
    session.Say(fmt::format("job {} on scene {}", id, ShortName(job->training().scene())));
    SayStart(session, *job);
    if (const int code = before_watch == nullptr ? kOk : before_watch(*job); code != kOk) {
      return code;
    }
    return WatchJobToTheEnd(session, job->name(), *watch);
  }
  SayStart(session, *job);
  PrintQueued(session, *job, fmt::format("nerfctl job watch {}", id));
  return kOk;
}

}  // namespace nerf
