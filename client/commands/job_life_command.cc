#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/calls/job_calls.h"
#include "client/calls/job_flags.h"
#include "client/calls/job_watch.h"
#include "client/commands/commands.h"
#include "client/flags/crop_flag.h"
#include "client/flags/deadline_flag.h"
#include "client/flags/job_label_flags.h"
#include "client/flags/names.h"
#include "client/flags/new_resource_flags.h"
#include "common/problems.h"
#include "common/process/exit_code.h"
#include "common/status_macros.h"
#include "engine/base/config/view_style_check.h"
#include "engine/base/messages/crop_box.h"
#include "fmt/format.h"
#include "nerf/v1/job_service.grpc.pb.h"

namespace nerf {
namespace {

using JobStub = v1::JobService::Stub;

int SayChanged(Session& session, const absl::StatusOr<v1::Job>& job) {
  if (!job.ok()) return session.Fail(job.status());
  PrintChanged(session.printer(), *job);
  session.SayNext(fmt::format("nerfctl job show {}", ShortName(job->name())));
  return kOk;
}

template <typename Request>
int ChangeJob(Session& session, const std::string& text,
              grpc::Status (JobStub::*method)(grpc::ClientContext*, const Request&, v1::Job*),
              Request request = {}) {
  const auto name = ExpandName(ResourceKind::kJob, text, session.flags().project);
  if (!name.ok()) return session.FailUsage(name.status());
  request.set_name(*name);
  const auto stub = session.Stub<v1::JobService>();
  return SayChanged(session, session.Call(*stub, method, request));
}

int PauseJob(Session& session, const std::string& text) {
  return ChangeJob(session, text, &JobStub::PauseJob);
}

int ResumeJob(Session& session, const std::string& text) {
  return ChangeJob(session, text, &JobStub::ResumeJob);
}

// Cancels each job; a failure does not keep the others from being cancelled. Returns the first
// failure's exit code.
int CancelJobs(Session& session, const std::vector<std::string>& texts, bool keep) {
  v1::CancelJobRequest request;
  request.set_keep_checkpoint(keep);
  if (texts.size() == 1) return ChangeJob(session, texts[0], &JobStub::CancelJob, request);
  std::vector<std::string> names;
  for (const std::string& text : texts) {
    absl::StatusOr<std::string> name =
        ExpandName(ResourceKind::kJob, text, session.flags().project);
    if (!name.ok()) return session.FailUsage(name.status());
    names.push_back(*std::move(name));
  }
  const Printer printer = session.printer();
  const auto stub = session.Stub<v1::JobService>();
  std::vector<v1::Job> cancelled;
  int exit_code = kOk;
  for (const std::string& name : names) {
    request.set_name(name);
    absl::StatusOr<v1::Job> job = session.Call(*stub, &JobStub::CancelJob, request);
    if (!job.ok()) {
      const int failed = session.Fail(job.status());
      if (exit_code == kOk) exit_code = failed;
      if (absl::IsCancelled(job.status())) break;
      continue;
    }
    // An array of JSON is printed as a whole.
    if (printer.format != OutputFormat::kJson) PrintChanged(printer, *job);
    cancelled.push_back(*std::move(job));
  }
  if (printer.format == OutputFormat::kJson) PrintJsonList(printer, cancelled);
  return exit_code;
}

struct RetryFlags {
  std::string id, request_id;
  bool watch = false;
};

// Makes a job of one that has ended.
template <typename Request>
int GoOn(Session& session, const std::string& text, const RetryFlags& flags,
         grpc::Status (JobStub::*method)(grpc::ClientContext*, const Request&, v1::Job*),
         Request request = {}) {
  const auto name = ExpandName(ResourceKind::kJob, text, session.flags().project);
  if (!name.ok()) return session.FailUsage(name.status());
  request.set_name(*name);
  request.set_job_id(flags.id);
  const auto request_id = RequestIdOrNew(flags.request_id, *session.io().random);
  if (!request_id.ok()) return session.FailUsage(request_id.status());
  request.set_request_id(*request_id);
  const auto stub = session.Stub<v1::JobService>();
  const auto job = session.Call(*stub, method, request);
  if (!flags.watch || !job.ok()) return SayChanged(session, job);
  return WatchJobToTheEnd(session, job->name(), {.patient_from_start = true});
}

int RetryJob(Session& session, const std::string& text, const RetryFlags& flags) {
  return GoOn(session, text, flags, &JobStub::RetryJob);
}

struct ExtendFlags : RetryFlags {
  JobFlags total;  // its budget alone
};

int ExtendJob(Session& session, const std::string& text, const ExtendFlags& flags) {
  v1::TrainingConfig config;
  Problems problems;
  TakeBudget(flags.total, &config, &problems);
  v1::ExtendJobRequest request;
  switch (config.budget_case()) {
    case v1::TrainingConfig::kSteps:
      request.set_steps(config.steps());
      break;
    case v1::TrainingConfig::kSamples:
      request.set_samples(config.samples());
      break;
    case v1::TrainingConfig::kSeconds:
      request.set_seconds(config.seconds());
      break;
    case v1::TrainingConfig::BUDGET_NOT_SET:
      problems.Add("", "job extend needs a new total: --samples, --steps or --seconds");
      break;
  }
  if (const absl::Status status = problems.Result(); !status.ok()) return session.FailUsage(status);
  return GoOn(session, text, flags, &JobStub::ExtendJob, request);
}

struct UpdateFlags {
  std::string priority, etag, start_by, end_by, crop;
  std::optional<std::string> display_name;
  std::vector<std::string> labels, removed_labels;
};

absl::StatusOr<v1::UpdateJobRequest> BuildUpdate(const UpdateFlags& flags, absl::Time now) {
  v1::UpdateJobRequest request;
  Problems problems;
  v1::Job& job = *request.mutable_job();
  google::protobuf::FieldMask& mask = *request.mutable_update_mask();
  job.set_etag(flags.etag);
  if (flags.display_name.has_value()) {
    job.set_display_name(*flags.display_name);
    mask.add_paths("display_name");
  }
  if (!flags.priority.empty()) {
    int priority = 0;
    problems.AddOrAssign(ParsePriority(flags.priority), &priority);
    job.set_priority(priority);
    mask.add_paths("priority");
  }
  for (const std::string& text : flags.labels) {
    std::pair<std::string, std::string> label;
    problems.AddOrAssign(ParseLabel(text), &label);
    (*job.mutable_labels())[label.first] = label.second;
    mask.add_paths("labels." + label.first);
  }
  // "none" names the field without a value, which removes the deadline.
  if (!flags.start_by.empty()) mask.add_paths("start_by_time");
  if (!flags.start_by.empty() && flags.start_by != "none") {
    problems.AddOrAssign(ParseDeadline("--start-by", flags.start_by, now),
                         job.mutable_start_by_time());
  }
  if (!flags.end_by.empty()) mask.add_paths("end_by_time");
  if (!flags.end_by.empty() && flags.end_by != "none") {
    problems.AddOrAssign(ParseDeadline("--end-by", flags.end_by, now), job.mutable_end_by_time());
  }
  if (!flags.crop.empty()) mask.add_paths("training.crop");
  if (!flags.crop.empty() && flags.crop != kNoCrop) {
    OwnBox box;
    problems.AddOrAssign(ParseOwnBox("--crop", flags.crop), &box);
    *job.mutable_training()->mutable_crop() = ToMessage(box);
  }
  for (const std::string& key : flags.removed_labels) mask.add_paths("labels." + key);
  if (mask.paths().empty()) {
    problems.Add("",
                 "job update needs --display-name, --priority, --start-by, --end-by, --crop, "
                 "--label or --remove-label");
  }
  NERF_RETURN_IF_ERROR(problems.Result());
  return request;
}

int UpdateJob(Session& session, const std::string& text, const UpdateFlags& flags) {
  const auto name = ExpandName(ResourceKind::kJob, text, session.flags().project);
  if (!name.ok()) return session.FailUsage(name.status());
  auto request = BuildUpdate(flags, session.io().clock->WallNow());
  if (!request.ok()) return session.FailUsage(request.status());
  request->mutable_job()->set_name(*name);
  const auto stub = session.Stub<v1::JobService>();
  return SayChanged(session, session.Call(*stub, &JobStub::UpdateJob, *request));
}

void AddGoOnFlags(CLI::App& command, RetryFlags* flags) {
  command.add_option("--id", flags->id, "Wanted id (default: the server makes one)")
      ->type_name("ID");
  command
      .add_option("--request-id", flags->request_id,
                  "UUID4 that makes repeating this command safe (default: a new one)")
      ->type_name("UUID");
  command.add_flag("--watch", flags->watch, "Follow the new job to its end");
}

std::shared_ptr<std::string> AddJobArgument(CLI::App& command) {
  auto name = std::make_shared<std::string>();
  command.add_option("job", *name, "Name of the job")->required();
  return name;
}

}  // namespace

void AddJobLifeCommands(CLI::App& job, Command* selected) {
  CLI::App* cancel = job.add_subcommand("cancel", "Stop jobs for good");
  auto cancelled = std::make_shared<std::vector<std::string>>();
  cancel->add_option("job", *cancelled, "Names of jobs")->required();
  auto keep = std::make_shared<bool>(false);
  cancel->add_flag("--keep", *keep, "Let the workers of trainings commit a last checkpoint first");
  cancel->footer("Example:\n  nerfctl job cancel j-7f3k2c81 j-9x2k4d11 --keep");
  cancel->callback(
      [=] { *selected = [=](Session& s) { return CancelJobs(s, *cancelled, *keep); }; });

  CLI::App* pause =
      job.add_subcommand("pause", "Have a training write a checkpoint and stop until resumed");
  auto paused = AddJobArgument(*pause);
  pause->footer("Example:\n  nerfctl job pause j-7f3k2c81");
  pause->callback([=] { *selected = [=](Session& s) { return PauseJob(s, *paused); }; });

  CLI::App* resume = job.add_subcommand("resume", "Queue a paused training again");
  auto resumed = AddJobArgument(*resume);
  resume->footer("Example:\n  nerfctl job resume j-7f3k2c81");
  resume->callback([=] { *selected = [=](Session& s) { return ResumeJob(s, *resumed); }; });

  CLI::App* retry = job.add_subcommand(
      "retry",
      "Train on from the last checkpoint of a training that failed or was cancelled, as a new job");
  auto retried = AddJobArgument(*retry);
  auto retry_flags = std::make_shared<RetryFlags>();
  AddGoOnFlags(*retry, retry_flags.get());
  retry->footer("Example:\n  nerfctl job retry j-7f3k2c81 --watch");
  retry->callback(
      [=] { *selected = [=](Session& s) { return RetryJob(s, *retried, *retry_flags); }; });

  CLI::App* extend = job.add_subcommand("extend",
                                        "Train on from the end of a training to a larger budget, "
                                        "which counts what it trained, as a new "
                                        "job");
  auto extended = AddJobArgument(*extend);
  auto extend_flags = std::make_shared<ExtendFlags>();
  AddBudgetFlags(*extend, &extend_flags->total);
  AddGoOnFlags(*extend, extend_flags.get());
  extend->footer("Example:\n  nerfctl job extend j-7f3k2c81 --samples 80M --watch");
  extend->callback(
      [=] { *selected = [=](Session& s) { return ExtendJob(s, *extended, *extend_flags); }; });

  CLI::App* update =
      job.add_subcommand("update", "Change priority, deadlines, crop, labels or name");
  auto updated = AddJobArgument(*update);
  auto flags = std::make_shared<UpdateFlags>();
  update->add_option("--priority", flags->priority, "-100 to 100; the highest start first")
      ->type_name("N");
  update->add_option("--start-by", flags->start_by, "Fail the job if no worker has had it by then")
      ->type_name("TIME|none");
  update->add_option("--end-by", flags->end_by, "Fail the job if it has not ended by then")
      ->type_name("TIME|none");
  AddKeptCropFlag(*update, &flags->crop);
  update->add_option("--label", flags->labels, "Set a label; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  update->add_option("--remove-label", flags->removed_labels, "Remove a label; may be repeated")
      ->type_name("KEY")
      ->allow_extra_args(false);
  update->add_option("--display-name", flags->display_name, "Name shown to people")
      ->type_name("TEXT");
  update->add_option("--etag", flags->etag, "Refuse if the job has changed since it had this etag")
      ->type_name("ETAG");
  update->footer("Example:\n  nerfctl job update j-7f3k2c81 --priority 10 --label team=blue");
  update->callback([=] { *selected = [=](Session& s) { return UpdateJob(s, *updated, *flags); }; });
}

}  // namespace nerf
