#pragma once

#include <grpcpp/client_context.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <ostream>
#include <stop_token>
#include <string>
#include <utility>

#include "client/calls/session.h"
#include "client/flags/interrupt.h"
#include "client/flags/names.h"
#include "client/flags/text_format.h"
#include "client/show/printer.h"
#include "client/show/progress_display.h"
#include "common/error_reason.h"
#include "common/exit_code.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "common/status_macros.h"
#include "fmt/format.h"

namespace nerf {

// "RUNNING"; a state that this program does not know by its number.
template <typename Job>
std::string JobStateText(const Job& job) {
  const std::string& name = Job::State_Name(job.state());
  return name.empty() ? fmt::format("STATE_{}", static_cast<int>(job.state())) : name;
}

template <typename Job>
bool IsJobOver(const Job& job) {
  return job.state() == Job::SUCCEEDED || job.state() == Job::FAILED ||
         job.state() == Job::CANCELLED;
}

// Follows a job that one worker does, a pose or an export job, to its end and shows how far it is;
// a broken stream is resumed. With --output jsonl prints every message. `Kind` has
//   Job, Service, Request, Response   messages of the API
//   kNoun                             "pose job"
//   Watch(stub, context, request)     begins the stream
//   JobOf(response)                   the job of a message, null without one
//   ProgressOf(job)                   what to show; nullopt: nothing
template <typename Kind>
class JobFollower {
 public:
  using Job = typename Kind::Job;

  JobFollower(Session& session, std::string name)
      : session_(session),
        name_(std::move(name)),
        stub_(session.Stub<typename Kind::Service>()),
        display_(session.io(), session.flags().progress) {}

  // The job at its end. Errors: those of the server; Cancelled after Ctrl-C; DeadlineExceeded after
  // --timeout.
  absl::StatusOr<Job> Run() {
    const std::string unfinished = fmt::format("before the {} ended", Kind::kNoun);
    while (true) {
      const absl::Status status = CancelledAsUnavailable(FollowStream());
      if (IsJobOver(job_)) {
        display_.Clear();
        return job_;
      }
      if (session_.io().interrupt->requested()) return absl::CancelledError("interrupted");
      const std::optional<ErrorReason> why = GetReason(status);
      if (why.has_value() && why->reason == reason::kEpochMismatch && !token_.empty()) {
        token_.clear();
        continue;
      }
      if (absl::IsDeadlineExceeded(status) || session_.TimeLeft() <= absl::ZeroDuration()) {
        return session_.TimeIsOver(unfinished);
      }
      const bool may_retry = (status.ok() || absl::IsUnavailable(status)) && has_heard_;
      if (!may_retry) return status.ok() ? absl::UnavailableError("the watch ended") : status;
      if (!std::exchange(told_, true)) {
        display_.Say("connection lost; the job goes on, trying again");
      }
      if (!session_.Sleep(session_.io().first_retry_delay)) {
        return session_.io().interrupt->requested() ? absl::CancelledError("interrupted")
                                                    : session_.TimeIsOver(unfinished);
      }
    }
  }

 private:
  absl::Status FollowStream() {
    typename Kind::Request request;
    request.set_name(name_);
    request.set_resume_token(token_);
    grpc::ClientContext context;
    NERF_ASSIGN_OR_RETURN(const std::string token, session_.token());
    PrepareCall(session_.TimeLeft(), token, &context);
    const std::stop_callback cancel(session_.stop(), [&context] { context.TryCancel(); });
    const auto reader = Kind::Watch(*stub_, &context, request);
    typename Kind::Response message;
    while (reader->Read(&message)) Take(message);
    return FromGrpcStatus(reader->Finish());
  }

  void Take(const typename Kind::Response& message) {
    if (std::exchange(told_, false)) display_.Say("connected again");
    has_heard_ = true;
    if (!message.resume_token().empty()) token_ = message.resume_token();
    if (session_.flags().prints_events) {
      *session_.io().out << ToJson(message, /*pretty=*/false) << '\n' << std::flush;
    }
    const Job* const job = Kind::JobOf(message);
    if (job == nullptr) return;
    const bool changed = job_.name().empty() || job->state() != job_.state() ||
                         job->attempt() != job_.attempt() ||
                         job->wait().message() != job_.wait().message();
    if (changed) display_.Say(PlainText(StateLineOf(*job)));
    job_ = *job;
    if (IsJobOver(job_)) return;  // what it did last is no news
    if (const std::optional<ProgressLine> progress = Kind::ProgressOf(*job)) {
      display_.Update(*progress);
    }
  }

  static std::string StateLineOf(const Job& job) {
    std::string line =
        fmt::format("{} {} {}", Kind::kNoun, ShortName(job.name()), JobStateText(job));
    if (!job.queue_message().empty()) line += ": " + job.queue_message();
    if (job.has_wait()) line += ", waits: " + job.wait().message();
    if (!job.worker().empty()) line += " on " + ShortName(job.worker());
    if (!job.worker().empty() && job.attempt() > 1) {
      line += fmt::format(", attempt {}", job.attempt());
    }
    return line;
  }

  Session& session_;
  const std::string name_;
  const std::unique_ptr<typename Kind::Service::Stub> stub_;
  ProgressDisplay display_;
  Job job_;
  std::string token_;
  bool has_heard_ = false, told_ = false;
};

// Follows a job; *job: at its end. Where that is not SUCCEEDED, or not reached, says why and what
// goes on. `command`: its noun on the command line, "pose-job". Returns the exit code.
template <typename Kind>
int AwaitEndOf(Session& session, const std::string& name, std::string_view command,
               typename Kind::Job* job) {
  auto ended = JobFollower<Kind>(session, name).Run();
  if (!ended.ok()) {
    const int exit_code = session.Fail(ended.status());
    if (absl::IsCancelled(ended.status()) || absl::IsDeadlineExceeded(ended.status())) {
      session.SayError(session.Runnable(PlainText(
          fmt::format("  the {} goes on; `nerfctl {} watch {}` follows it, `nerfctl {} cancel {}` "
                      "stops it",
                      Kind::kNoun, command, ShortName(name), command, ShortName(name)))));
    }
    return exit_code;
  }
  *job = *std::move(ended);
  if (job->state() == Kind::Job::SUCCEEDED) return kOk;
  session.SayError(PlainText(fmt::format("nerfctl: {} {} is {}{}", Kind::kNoun,
                                         ShortName(job->name()), JobStateText(*job),
                                         job->has_error() ? ": " + job->error().message() : "")));
  const bool is_data = job->error().code() == static_cast<int>(absl::StatusCode::kInvalidArgument);
  return is_data ? kBadData : kJobFailed;
}

}  // namespace nerf
